#include "base/worker.hpp"

#include <malloc.h>
#include <sys/prctl.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/missing_call.hpp"

namespace dblock {

struct Worker::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool ending = false;
  WakeEvent idle;

  void run() {
    // libmariadb sleeps "one microsecond" in each connect; with the default timer slack that takes sixty.
    ::prctl(PR_SET_TIMERSLACK, 1);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return ending || !tasks.empty(); });
      if (tasks.empty()) return;
      auto task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // destroys what the task owned before idle is raised
      lock.lock();
      if (tasks.empty()) idle.raise();
    }
  }
};

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& e) {
    const int err = e.code().value();
    const std::string advice = err == EAGAIN ? "; too many processes (ulimit -u)?" : "";
    throw std::runtime_error(
        with_missing_call("cannot start the thread that talks to the database", err, k_clone3) + advice);
  }
}

Worker::Worker() : state_(std::make_shared<State>()) {
  ::mallopt(M_ARENA_MAX, 1);                     // two threads that take turns need no second heap
  ::mallopt(M_TOP_PAD, 512 * 1024);              // the heap grows in few steps
  ::mallopt(M_TRIM_THRESHOLD, 8 * 1024 * 1024);  // and does not shrink in between
  thread_ = start_thread([state = state_] { state->run(); });
  state_->idle.raise();
}

Worker::~Worker() {
  if (!thread_.joinable()) return;
#ifdef __SANITIZE_ADDRESS__
  const bool at_rest = false;  // memory that a detached thread has not freed would count as leaked
#else
  const bool at_rest = state_->idle.raised();
#endif
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_one();
  // An idle thread touches nothing but its own State, and need not be waited for.
  if (at_rest) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Worker::post(std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->idle.clear();
    state_->tasks.push_back(std::move(task));
  }
  state_->changed.notify_one();
}

const WakeEvent& Worker::idle() const {
  return state_->idle;
}

bool Worker::wait_idle(Nanos patience) const {
  SystemClock clock;
  return clock.wait_until(clock.now() + patience, state_->idle);
}

void Worker::abandon() {
  thread_.detach();
}

}  // namespace dblock
