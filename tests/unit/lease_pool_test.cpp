#include "lease/owner_id.hpp"
#include "lease/store.hpp"
#include "support/catch.hpp"

namespace dblock::lease {
namespace {

Key key(const char* name) {
  return *Key::parse(name);
}

}  // namespace

TEST_CASE("a request of a pool stands for one of each of its keys, in their order") {
  LeaseRequest request{.key = key("b"), .owner = {"owner"}, .terms = {}, .holder = {}};
  CHECK(members_of(request).size() == 1);
  CHECK(request.plain());
  request.any = {key("a"), key("c")};
  CHECK_FALSE(request.plain());
  const auto members = members_of(request);
  REQUIRE(members.size() == 3);
  CHECK(members[0].key == key("b"));
  CHECK(members[2].key == key("c"));
  for (const auto& member : members) CHECK(member.plain());
  CHECK(refs_to(request)[1].key == key("a"));
  CHECK(locks_of(request) == std::vector{key("b"), key("a"), key("c")});
}

TEST_CASE("an owner id is shown as who made it") {
  const OwnerId made = make_owner_id("op@web-1", 4711, 1795571277, "");
  CHECK(display_owner(made.text) == "op@web-1:4711");
  CHECK(display_owner("shop@web-3:php-5f0c") == "shop@web-3:php-5f0c");
  CHECK(display_owner("") == "");
}

}  // namespace dblock::lease
