#include "lease/owner_id.hpp"
#include "lease/store.hpp"
#include "support/catch.hpp"

namespace dblock::lease {
namespace {

Key key(const char* name) {
  return *Key::parse(name);
}

}  // namespace

TEST_CASE("a pool has one name in whatever order its keys are given, which is no key's and tells them") {
  const Key pool = Key::of_pool({key("b"), key("a b")});
  CHECK(pool == Key::of_pool({key("a b"), key("b")}));
  CHECK_FALSE(Key::parse(pool.bytes()));
  CHECK(Key::named_by(pool.bytes()) == std::vector<std::string>{"a b", "b"});
  CHECK(Key::named_by("a b") == std::vector<std::string>{"a b"});
}

TEST_CASE("a request of a pool stands for one of each of its keys, in their order") {
  LeaseRequest request{.key = key("b"), .owner = {"owner"}, .terms = {}, .holder = {}};
  CHECK(members_of(request).size() == 1);
  CHECK(request.plain());
  request.any = {key("a"), key("c")};
  request.waits = true;
  CHECK_FALSE(request.plain());
  const auto members = members_of(request);
  REQUIRE(members.size() == 3);
  CHECK(members[0].key == key("b"));
  CHECK(members[2].key == key("c"));
  for (const auto& member : members) {
    CHECK(member.plain());
    CHECK_FALSE(member.waits);
  }
  CHECK(refs_to(request)[1].key == key("a"));
}

TEST_CASE("an owner id is shown as who made it") {
  const OwnerId made = make_owner_id("op@web-1", 4711, 1795571277, "");
  CHECK(display_owner(made.text) == "op@web-1:4711");
  CHECK(display_owner("shop@web-3:php-5f0c") == "shop@web-3:php-5f0c");
  CHECK(display_owner("") == "");
}

}  // namespace dblock::lease
