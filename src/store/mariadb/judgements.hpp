// What `doctor` makes of a host's answers: facts in, findings out. A value that the server does not know, or
// does not tell this account, is no fault.
#pragma once

#include <vector>

#include "store/doctor.hpp"
#include "store/mariadb/host_facts.hpp"

namespace dblock::store::mariadb {

// connection, and with it tls, certificate, privileges, excess, schema
[[nodiscard]] std::vector<Finding> judge_access(const HostFacts& facts);

// clock, read-only, replica, flush-log, binary-log, semi-sync, galera: what decides whether a granted lease
// stays granted.
[[nodiscard]] std::vector<Finding> judge_durability(const HostFacts& facts, unsigned min_replicas);

// timeouts, connections, named-locks, session, balancer
[[nodiscard]] std::vector<Finding> judge_service(const HostFacts& facts);

// All of the above for each host, in order, then what only a comparison shows. Where another host takes
// writes, one that cannot be reached or is read-only is what several hosts are for.
[[nodiscard]] std::vector<Finding> judge_hosts(const std::vector<HostFacts>& hosts, unsigned min_replicas);

}  // namespace dblock::store::mariadb
