// Overwrites passwords of --db URLs in this process's argument area, which every user can read with `ps`.
#pragma once

#include "cli/options/parse.hpp"

namespace dblock::cli {

// Overwrites the password in a URL in place, each byte with 'x'. Leaves a URL without password alone.
void mask_url_password(char* url);

// Masks each value of --db in `argv`, of which `parsed` was made. Leaves the job's words alone.
void hide_passwords(char** argv, const ParsedWords& parsed);

}  // namespace dblock::cli
