// Many trials of one kind, several at a time, each on a thread of its own: most of their time is waiting.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace dblock::test {

// What went wrong, one entry a trial that did; an exception counts as that. `trial` is told its number, from
// 0, and must not use Catch, which is for one thread.
[[nodiscard]] std::vector<std::string> sweep(std::size_t trials, std::size_t at_once,
                                             const std::function<std::string(std::size_t)>& trial);

// The steps of a sweep that this run takes: those of `count` whose number is K modulo N * stride.
// DBLOCK_TEST_SHARE=K/N says K and N, so that runs with a K each go through all of them; without it every
// `stride`-th is taken, from 0. A run about MySQL takes a third of its share: the steps are those of the same
// dblock. No share is less than ten steps.
[[nodiscard]] std::vector<std::size_t> share_of_steps(std::size_t count, std::size_t stride = 1);

// The first few failures, and how many there are.
[[nodiscard]] std::string summary(const std::vector<std::string>& failures);

}  // namespace dblock::test
