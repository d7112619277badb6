// The page of a made-up night, as a browser shows it.
#pragma once

#include <string>

#include "support/database.hpp"

namespace dblock::test {

// Writes the runs of a night into a history on the server, and DIRECTORY/night-light.png and night-dark.png.
// Needs chromium.
void draw_night(const ServerAddress& server, const std::string& directory);

}  // namespace dblock::test
