// The judgements of `doctor`: facts of a store in, findings out. A value that a server does not know, or does
// not tell this account, is no fault.
#pragma once

#include <cstdint>
#include <vector>

#include "doctor/doctor.hpp"
#include "store/facts.hpp"

namespace dblock::doctor {

using store::FileFacts;
using store::HostFacts;
using store::ServerFacts;

// connection, and with it tls, certificate, privileges, excess, schema, procedures
[[nodiscard]] std::vector<Finding> judge_access(const HostFacts& facts);

// clock, read-only, replica, flush-log, binary-log, semi-sync, galera, replication-group: whether a granted
// lease stays granted.
[[nodiscard]] std::vector<Finding> judge_durability(const HostFacts& facts, unsigned min_replicas);

// replication-group alone.
[[nodiscard]] Finding judge_group(const HostFacts& facts);

// timeouts, connections, hourly-limits, named-locks, session, balancer, pause
[[nodiscard]] std::vector<Finding> judge_service(const HostFacts& facts);

// All of the above for each host, in order, then a comparison of the hosts. A host that cannot be reached, or
// is read-only, is not bad while another host takes writes.
[[nodiscard]] std::vector<Finding> judge_hosts(const std::vector<HostFacts>& hosts, unsigned min_replicas);

// client-library, then the hosts.
[[nodiscard]] std::vector<Finding> judge_server(const ServerFacts& facts);

// store, and with it store-mode, schema, history, journal, integrity, pause; disk-space, clock
[[nodiscard]] std::vector<Finding> judge_file(const FileFacts& facts);

// pause: one for each pause in effect.
[[nodiscard]] std::vector<Finding> judge_pauses(const std::vector<lease::Pause>& pauses);

// The checks store-mode (of a file's st_mode) and disk-space alone.
[[nodiscard]] Finding judge_mode(unsigned mode);
[[nodiscard]] Finding judge_space(std::uint64_t free_bytes);

}  // namespace dblock::doctor
