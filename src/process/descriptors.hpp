// For processes that outlive dblock's caller: nothing of what the caller had open may stay open in them.
#pragma once

#include <initializer_list>

namespace dblock::process {

// Closes every descriptor of this process but those in `kept`, and puts /dev/null on the standard three.
void keep_only(std::initializer_list<int> kept);

}  // namespace dblock::process
