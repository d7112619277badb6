// Whether a procedure of the database is the one that this dblock installs, by its text.
#pragma once

#include <string_view>

namespace dblock::store::mariadb {

// `stored`: the body of a procedure, as information_schema.ROUTINES shows it. `sql`: the CREATE PROCEDURE
// statement that it should come from. White space and comments do not matter, since tools that restore a
// database leave them out. Nor does whether the parts in version comments, as /*M! … */, are there: that
// depends on the server which the procedure was created on.
[[nodiscard]] bool is_body_of(std::string_view stored, std::string_view sql);

}  // namespace dblock::store::mariadb
