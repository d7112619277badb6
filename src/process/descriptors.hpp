// For processes that outlive dblock's caller: nothing of what the caller had open may stay open in them.
#pragma once

#include <vector>

namespace dblock::process {

// Closes every descriptor of this process but those in `kept` (-1 stands for none), and puts /dev/null on
// those of the standard three that are not.
void keep_only(std::vector<int> kept);

}  // namespace dblock::process
