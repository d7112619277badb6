// The line of the embedded store with real files: threads of one process and processes of their own.
#include "store/sqlite/turnstile.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/sqlite/interrupter.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;
using lease::Key;
using lease::Turn;

constexpr Nanos k_ample = 20s;     // for what takes no time of its own
constexpr Nanos k_moment = 500ms;  // the best of several times, on a busy machine

struct Directory : TempDirectory {
  [[nodiscard]] std::string database() const { return file("locks.db"); }
  [[nodiscard]] std::string line() const { return database() + "-line"; }
};

Key key(const std::string& text = "k") {
  return *Key::parse(text);
}

BootTime in(Nanos time) {
  return BootClock::now() + time;
}

// What another process would hold: some bytes of the file.
class ForeignLock {
 public:
  ForeignLock(const Directory& directory, off_t offset, off_t length = 1, short type = F_WRLCK)
      : fd_(::open(directory.line().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    struct flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = offset;
    range.l_len = length;
    REQUIRE(::fcntl(fd_.get(), F_OFD_SETLK, &range) == 0);
  }
  void release() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

// One end each of a pipe; a byte says one thing.
struct Pipe {
  UniqueFd in, out;
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  void say(char byte) const { REQUIRE(::write(in.get(), &byte, 1) == 1); }
  [[nodiscard]] char hear() const {
    char byte = 0;
    return ::read(out.get(), &byte, 1) == 1 ? byte : '\0';
  }
};

// A process that runs `body` and ends; killed with its owner.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() { end(SIGKILL); }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  void signal(int number) const { ::kill(pid_, number); }
  void end(int number) {
    if (pid_ <= 0) return;
    ::kill(pid_, number);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

// Stands in line in a process of its own: says 'e' when it has a place, `name` when its turn has come; then
// keeps its place until it is killed, or goes at once.
Child stand_in_line(const Directory& directory, const Pipe& pipe, char name, bool stay) {
  Child child([&] {
    FileTurnstile line(directory.database());
    const WakeEvent never;
    const Turn entered = line.enter(key());
    pipe.say(entered == Turn::none ? '!' : 'e');
    if (line.await(in(k_ample), never) == Turn::ours) pipe.say(name);
    if (stay) ::pause();
  });
  REQUIRE(pipe.hear() == 'e');
  return child;
}

}  // namespace

TEST_CASE("line: the first is at once at the head, the next when the first has left") {
  const Directory directory;
  const WakeEvent never;
  FileTurnstile first(directory.database());
  FileTurnstile second(directory.database());
  CHECK(first.enter(key()) == Turn::ours);
  CHECK(first.await(in(0s), never) == Turn::ours);
  CHECK(second.enter(key()) == Turn::not_yet);
  CHECK(second.await(in(10ms), never) == Turn::not_yet);
  first.leave();
  CHECK(second.await(in(k_ample), never) == Turn::ours);
  CHECK(first.enter(key()) == Turn::not_yet);  // to the end of the line
}

TEST_CASE("line: each place knows how many there are before and behind it") {
  const Directory directory;
  const auto others = [](const FileTurnstile& line) {
    const auto seen = line.others();
    REQUIRE(seen);
    return std::pair(seen->before, seen->behind);
  };
  std::vector<std::unique_ptr<FileTurnstile>> lines;
  for (std::size_t i = 0; i < 20; ++i) {
    lines.push_back(std::make_unique<FileTurnstile>(directory.database()));
    CHECK_FALSE(lines.back()->others());
    (void)lines.back()->enter(key());
    CHECK(others(*lines.back()) == std::pair(i, std::size_t{0}));
  }
  for (std::size_t i = 0; i < 20; ++i) CHECK(others(*lines[i]) == std::pair(i, 19 - i));
  for (const std::size_t gone : {0U, 7U, 19U}) lines[gone]->leave();
  CHECK(others(*lines[10]) == std::pair(std::size_t{8}, std::size_t{8}));
  FileTurnstile stranger(directory.database());
  (void)stranger.enter(key("another"));
  CHECK(others(*lines[1]) == std::pair(std::size_t{0}, std::size_t{16}));
  lines[3].reset();
  CHECK(others(*lines[18]) == std::pair(std::size_t{15}, std::size_t{0}));
}

TEST_CASE("line: entering again gives the old place up") {
  const Directory directory;
  const WakeEvent never;
  FileTurnstile first(directory.database());
  FileTurnstile second(directory.database());
  REQUIRE(first.enter(key("a")) == Turn::ours);
  REQUIRE(first.enter(key("b")) == Turn::ours);
  CHECK(second.enter(key("a")) == Turn::ours);
}

TEST_CASE("line: keys have lines of their own, all in one empty file that only its owner can read") {
  const Directory directory;
  std::vector<std::unique_ptr<FileTurnstile>> lines;
  std::set<off_t> doors;
  for (int i = 0; i < 100; ++i) {
    const Key one = key("key " + std::to_string(i));
    lines.push_back(std::make_unique<FileTurnstile>(directory.database()));
    CHECK(lines.back()->enter(one) == Turn::ours);
    CHECK(FileTurnstile::door_of(one) >= 0);
    doors.insert(FileTurnstile::door_of(one));
  }
  CHECK(doors.size() == 100);
  struct stat status {};
  REQUIRE(::stat(directory.line().c_str(), &status) == 0);
  CHECK(status.st_size == 0);
  CHECK((status.st_mode & 07777) == 0600);
}

// Versions of dblock that run at the same time must mean the same bytes.
TEST_CASE("line: where a key's line begins is fixed for ever") {
  CHECK(FileTurnstile::door_of(key("k")) == off_t{0x3f9942} << 35);
  CHECK(FileTurnstile::door_of(key("nightly-etl")) == off_t{0x93d1374} << 35);
}

TEST_CASE("line: twenty threads get their turn in the order of their arrival", "[tsan]") {
  const Directory directory;
  FileTurnstile holder(directory.database());
  REQUIRE(holder.enter(key()) == Turn::ours);
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    const Pipe entered;
    threads.emplace_back([&, i, in_line = entered.in.get()] {
      FileTurnstile line(directory.database());
      const WakeEvent never;
      const bool behind = line.enter(key()) == Turn::not_yet;
      [[maybe_unused]] const auto n = ::write(in_line, "e", 1);
      const bool came = behind && line.await(in(k_ample), never) == Turn::ours;
      const std::lock_guard lock(mutex);
      order.push_back(came ? i : -1);
    });
    REQUIRE(entered.hear() == 'e');
  }
  holder.leave();
  for (std::thread& thread : threads) thread.join();
  std::vector<int> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(i);
  CHECK(order == expected);
}

TEST_CASE("line: twenty processes get their turn in the order of their arrival") {
  const Directory directory;
  const Pipe pipe;
  FileTurnstile holder(directory.database());
  REQUIRE(holder.enter(key()) == Turn::ours);
  std::vector<Child> children;
  std::string expected;
  for (char name = 'A'; name < 'A' + 20; ++name) {
    // A child inherits the holder's descriptor, and with it the lock: it must not outlive the holder's.
    children.push_back(Child([&, name] {
      holder.leave();
      FileTurnstile line(directory.database());
      const WakeEvent never;
      pipe.say(line.enter(key()) == Turn::not_yet ? 'e' : '!');
      pipe.say(line.await(in(k_ample), never) == Turn::ours ? name : '!');
    }));
    REQUIRE(pipe.hear() == 'e');
    expected += name;
  }
  holder.leave();
  std::string order;
  while (order.size() < expected.size()) order += pipe.hear();
  CHECK(order == expected);
}

TEST_CASE("line: a killed waiter is skipped, a killed holder wakes the next") {
  const Directory directory;
  const Pipe pipe;
  const WakeEvent never;
  Child holder = stand_in_line(directory, pipe, 'A', true);
  REQUIRE(pipe.hear() == 'A');
  Child killed = stand_in_line(directory, pipe, 'B', true);
  FileTurnstile next(directory.database());
  REQUIRE(next.enter(key()) == Turn::not_yet);
  killed.end(SIGKILL);
  CHECK(next.await(in(50ms), never) == Turn::not_yet);
  holder.end(SIGKILL);
  CHECK(next.await(in(k_ample), never) == Turn::ours);
}

TEST_CASE("line: a waiter frozen in the moment of its wake-up counts once") {
  const Directory directory;
  const off_t door = FileTurnstile::door_of(key());
  // Its ticket is 5, and it still holds the read lock it waited for.
  ForeignLock passed(directory, door + 1, 4, F_RDLCK);
  ForeignLock ticket(directory, door + 5);
  const WakeEvent never;
  FileTurnstile line(directory.database());
  REQUIRE(line.enter(key()) == Turn::not_yet);
  ticket.release();
  CHECK(line.await(in(k_ample), never) == Turn::ours);
}

TEST_CASE("line: a frozen waiter holds up those behind it, and is served when it goes on") {
  const Directory directory;
  const Pipe pipe;
  Child holder = stand_in_line(directory, pipe, 'A', true);
  REQUIRE(pipe.hear() == 'A');
  Child frozen = stand_in_line(directory, pipe, 'B', false);
  frozen.signal(SIGSTOP);
  const WakeEvent never;
  FileTurnstile behind(directory.database());
  REQUIRE(behind.enter(key()) == Turn::not_yet);
  holder.end(SIGKILL);
  CHECK(behind.await(in(50ms), never) == Turn::not_yet);
  frozen.signal(SIGCONT);
  CHECK(pipe.hear() == 'B');
  CHECK(behind.await(in(k_ample), never) == Turn::ours);
}

TEST_CASE("line: cancelling ends a wait at once, and the place stays until it is given up", "[tsan]") {
  const Directory directory;
  const WakeEvent never;
  FileTurnstile holder(directory.database());
  FileTurnstile waiter(directory.database());
  REQUIRE(holder.enter(key()) == Turn::ours);
  REQUIRE(waiter.enter(key()) == Turn::not_yet);
  Nanos best = 1h;  // of several, since the machine may be busy
  for (int i = 0; i < 10; ++i) {
    WakeEvent cancel;
    BootTime raised{};
    std::thread canceller([&] {
      std::this_thread::sleep_for(i * 1ms);  // while it gets ready to wait, and later
      raised = BootClock::now();
      cancel.raise();
    });
    const Turn turn = waiter.await(in(k_ample), cancel);
    const BootTime ended = BootClock::now();
    canceller.join();
    CHECK(turn == Turn::cancelled);
    best = std::min(best, ended - raised);
  }
  CHECK(best < k_moment);
  FileTurnstile last(directory.database());
  REQUIRE(last.enter(key()) == Turn::not_yet);
  holder.leave();
  CHECK(last.await(in(10ms), never) == Turn::not_yet);
  CHECK(waiter.await(in(k_ample), never) == Turn::ours);
}

TEST_CASE("line: a wait that was cancelled before it began does not block") {
  const Directory directory;
  FileTurnstile holder(directory.database());
  FileTurnstile waiter(directory.database());
  WakeEvent cancel;
  cancel.raise();
  REQUIRE(holder.enter(key()) == Turn::ours);
  REQUIRE(waiter.enter(key()) == Turn::not_yet);
  CHECK(waiter.await(in(k_ample), cancel) == Turn::cancelled);
}

TEST_CASE("line: a wait ends at its time, not before", "[tsan]") {
  const Directory directory;
  const WakeEvent never;
  FileTurnstile holder(directory.database());
  FileTurnstile waiter(directory.database());
  REQUIRE(holder.enter(key()) == Turn::ours);
  REQUIRE(waiter.enter(key()) == Turn::not_yet);
  Nanos best = 1h;
  for (int i = 0; i < 5; ++i) {
    const BootTime until = in(30ms);
    CHECK(waiter.await(until, never) == Turn::not_yet);
    const Nanos late = BootClock::now() - until;
    CHECK(late >= 0s);
    best = std::min(best, late);
  }
  CHECK(best < k_moment);
}

TEST_CASE("line: waiting works where the signal it needs is blocked, and leaves it so", "[tsan]") {
  const Directory directory;
  const WakeEvent never;
  sigset_t blocked;
  sigset_t before;
  sigset_t after;
  sigset_t pending;
  sigemptyset(&blocked);
  for (int s = SIGRTMIN; s <= SIGRTMAX; ++s) sigaddset(&blocked, s);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  FileTurnstile holder(directory.database());
  FileTurnstile waiter(directory.database());
  const bool placed = holder.enter(key()) == Turn::ours && waiter.enter(key()) == Turn::not_yet;
  const Turn turn = placed ? waiter.await(in(20ms), never) : Turn::none;
  sigpending(&pending);
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  CHECK(turn == Turn::not_yet);
  for (int s = SIGRTMIN; s <= SIGRTMAX; ++s) {
    CHECK(sigismember(&after, s) == 1);
    CHECK(sigismember(&pending, s) == 0);
  }
}

TEST_CASE("line: an interruption that comes before the call it is for is not lost", "[tsan]") {
  WakeEvent cancel;
  cancel.raise();
  Interrupter interrupter(in(k_ample), cancel);
  for (const BootTime soon = in(10ms); BootClock::now() < soon;) {
  }
  CHECK(::poll(nullptr, 0, 10'000) == -1);
  interrupter.over();
  CHECK(::poll(nullptr, 0, 10) == 0);
}

TEST_CASE("line: behind a door that stays shut there is no line", "[tsan]") {
  const Directory directory;
  ForeignLock door(directory, FileTurnstile::door_of(key()));
  const WakeEvent never;
  FileTurnstile line(directory.database());
  CHECK(line.enter(key()) == Turn::none);  // the wrong answer would be never
  CHECK(line.await(in(k_ample), never) == Turn::none);
  door.release();
  CHECK(line.enter(key()) == Turn::ours);
}

TEST_CASE("line: a door that is in use is waited for", "[tsan]") {
  const Directory directory;
  ForeignLock door(directory, FileTurnstile::door_of(key()));
  std::thread user([&] {
    std::this_thread::sleep_for(10ms);
    door.release();
  });
  FileTurnstile line(directory.database());
  CHECK(line.enter(key()) == Turn::ours);
  user.join();
}

TEST_CASE("line: the last ticket is found wherever it is") {
  const WakeEvent never;
  constexpr off_t highest = (off_t{1} << 35) - 1;
  for (const off_t ticket :
       {off_t{2}, off_t{3}, off_t{7}, off_t{8}, off_t{1000}, off_t{1} << 30, highest - 1}) {
    const Directory directory;
    const off_t door = FileTurnstile::door_of(key());
    ForeignLock lower(directory, door + 1);
    ForeignLock held(directory, door + ticket);
    FileTurnstile line(directory.database());
    INFO("ticket " << ticket);
    REQUIRE(line.enter(key()) == Turn::not_yet);
    // The next byte is ours: nobody else can have it.
    struct flock byte {};
    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_start = door + ticket + 1;
    byte.l_len = 1;
    const UniqueFd probe(::open(directory.line().c_str(), O_RDWR | O_CLOEXEC));
    CHECK(::fcntl(probe.get(), F_OFD_SETLK, &byte) != 0);
    lower.release();
    CHECK(line.await(in(5ms), never) == Turn::not_yet);
    held.release();
    CHECK(line.await(in(k_ample), never) == Turn::ours);
  }
  const Directory directory;
  const ForeignLock full(directory, FileTurnstile::door_of(key()) + highest);
  FileTurnstile line(directory.database());
  CHECK(line.enter(key()) == Turn::none);
}

TEST_CASE("line: what cannot be a line's file is none") {
  const Directory directory;
  const WakeEvent never;
  const auto has_line = [&never](const std::string& database) {
    FileTurnstile line(database);
    const bool entered = line.enter(key()) != Turn::none;
    CHECK((line.await(in(0s), never) != Turn::none) == entered);
    return entered;
  };
  CHECK_FALSE(has_line(directory.database() + "/missing/locks.db"));
  std::filesystem::create_directory(directory.line());
  CHECK_FALSE(has_line(directory.database()));
  std::filesystem::remove(directory.line());
  std::filesystem::create_symlink("elsewhere", directory.line());
  CHECK_FALSE(has_line(directory.database()));
  CHECK_FALSE(std::filesystem::exists(directory.line()));
  std::filesystem::remove(directory.line());
  REQUIRE(::mkfifo(directory.line().c_str(), 0600) == 0);
  CHECK_FALSE(has_line(directory.database()));
  std::filesystem::remove(directory.line());
  CHECK(has_line(directory.database()));
}

}  // namespace dblock::store::sqlite
