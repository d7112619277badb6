// What a holder leaves behind while it is at work: signs of life, the kernel's file locks, writes to a fenced
// store. For jobs and applications, processes of their own that may be killed at any point, and for clients
// of `acquire`.
#pragma once

#include <string>

#include "campaign/history.hpp"

namespace dblock::campaign {

// A file whose lock is held by everyone who has inherited the descriptor: the kernel gives it up when the
// last of a tree is dead. Holds the time of the last sign of life, in memory that outlives its writer.
class LifeFile {
 public:
  static LifeFile for_job(const std::string& directory, int op);  // locks it; inherited by the job's children
  static LifeFile to_watch(const std::string& directory, int op);
  // There once the job has begun.
  [[nodiscard]] static std::string path(const std::string& directory, int op);
  LifeFile(LifeFile&& other) noexcept;
  LifeFile& operator=(LifeFile&&) = delete;
  ~LifeFile();

  [[nodiscard]] bool lock();  // false: somebody else is alive
  void sign(Nanos at) const;  // the holder was at work at this time
  [[nodiscard]] Nanos last_sign() const;

 private:
  LifeFile(const std::string& path, bool inherited);
  int fd_ = -1;
  Nanos* word_ = nullptr;
};

// Locks the key's file as its mode is, for as long as this process and those it forks are alive. False:
// another holder's process is alive.
[[nodiscard]] bool lock_key(const std::string& directory, const std::string& key, const std::string& mode,
                            int slot);

// Whether a living process has locked the key's file, or a process that it has forked. Takes no lock, so that
// a caller who is frozen meanwhile keeps nobody out.
[[nodiscard]] bool key_is_locked(const std::string& directory, const std::string& key);

// Owner ids begin with this name. From an owner id: the op, 0 for none of a campaign's.
[[nodiscard]] std::string holder_name(int op);
[[nodiscard]] int op_of(const std::string& owner);

// A store that takes no write with a token lower than it has seen, one for each key.
void write_fenced(const std::string& directory, const History& history, int op, const std::string& key,
                  long long token);

}  // namespace dblock::campaign
