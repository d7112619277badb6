// A password in a --db URL is overwritten in this process's argument area, which everybody can read in `ps`.
#pragma once

#include "cli/parse.hpp"

namespace dblock::cli {

// Overwrites the password part of a URL in place with 'x' (of the same length); nothing when there is none.
void mask_url_password(char* url);

// Does so for every value of --db in `argv`, of which `parsed` was made. The job's own words are left alone.
void hide_passwords(char** argv, const ParsedWords& parsed);

}  // namespace dblock::cli
