// Makes one visitor for std::visit() of several lambdas, so that a variant without its lambda does not
// compile.
#pragma once

namespace dblock {

template <typename... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};

}  // namespace dblock
