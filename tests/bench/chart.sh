#!/bin/sh
# chart.sh - draw bench.json, as run.sh writes it, as a picture: how long one uncontended run takes with each tool.
#
#   tests/bench/chart.sh build/release/bench.json >tests/pictures/speed.svg
#
# Bars begin at zero and grow evenly with the time. A bar is the median, the line at its end reaches from quartile to
# quartile. A tool that was compared more than once is drawn as in its first comparison; what was skipped is left out.
set -eu

[ $# = 1 ] || {
  echo "usage: chart.sh BENCH.JSON" >&2
  exit 64
}
awk '
  # The text of a member, of a line that has it once.
  function text(line, name) {
    if (!match(line, "\"" name "\": \"[^\"]*\"")) return ""
    return substr(line, RSTART + length(name) + 5, RLENGTH - length(name) - 6)
  }
  function xml(words) {
    gsub(/&/, "\\&amp;", words)
    gsub(/</, "\\&lt;", words)
    return words
  }
  # As far as the next digit that a reader cares for.
  function short(ms) { return sprintf(ms < 9.95 ? "%.1f ms" : "%.0f ms", ms) }
  function group(tool) { return tool == "flock" || tool == "dblock run --local" || tool == "C program, SQLite" ? 1 : 2 }

  /^"machine"/ { machine = text($0, "cpu") ", " text($0, "cpus") " CPUs, " text($0, "storage") }
  /^"versions"/ {
    split("MariaDB etcd consul redis", servers, " ")
    for (i = 1; i <= 4; ++i)
      if (text($0, servers[i]) != "") versions = versions (versions == "" ? "" : ", ") servers[i] " " text($0, servers[i])
    sub(/-MariaDB[^,]*/, "", versions)
    versions = versions ", " text($0, "flock")
  }
  /^"pairs"/ { pairs = $2 + 0 }
  /"times"/ && !/unflushed/ {
    rest = $0
    while (match(rest, /\{"tool": "[^"]*", "median_ms": [0-9.]+, "quartiles_ms": \[[0-9.]+, [0-9.]+\]\}/)) {
      one = substr(rest, RSTART, RLENGTH)
      rest = substr(rest, RSTART + RLENGTH)
      tool = text(one, "tool")
      if (tool in median) continue
      tools[++count] = tool
      match(one, /"median_ms": [0-9.]+/)
      median[tool] = substr(one, RSTART + 13, RLENGTH - 13) + 0
      match(one, /\[[0-9.]+/)
      low[tool] = substr(one, RSTART + 1, RLENGTH - 1) + 0
      match(one, /[0-9.]+\]/)
      high[tool] = substr(one, RSTART, RLENGTH - 1) + 0
      if (high[tool] > longest) longest = high[tool]
    }
  }

  function bar(tool) {
    printf "<text x=\"16\" y=\"%d\"%s>%s</text>\n", y + 14, tool ~ /^dblock/ ? " font-weight=\"bold\"" : "", xml(tool)
    printf "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\" rx=\"2\"/>\n", \
      tool ~ /^dblock/ ? "own" : tool ~ /^C program/ ? "floor" : "peer", left, y, median[tool] * scale
    printf "<path class=\"spread\" d=\"M%.1f %dH%.1f\"/>\n", left + low[tool] * scale, y + 9, left + high[tool] * scale
    printf "<text x=\"%.1f\" y=\"%d\">%s</text>\n", left + high[tool] * scale + 8, y + 14, short(median[tool])
    y += 26
  }

  function note(words) {
    printf "<text class=\"title\" x=\"16\" y=\"%d\" font-size=\"11\">%s</text>\n", y + 14, xml(words)
    y += 16
  }

  END {
    if (!count) {
      print "chart.sh: no times in this file" >"/dev/stderr"
      exit 1
    }
    for (i = 2; i <= count; ++i) # shortest first
      for (j = i; j > 1 && median[tools[j]] < median[tools[j - 1]]; --j) {
        swap = tools[j]; tools[j] = tools[j - 1]; tools[j - 1] = swap
      }
    width = 720; left = 190; scale = (width - left - 80) / longest
    height = 26 * count + 150
    title = "time of one run of `true` under a free lock"
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, height, width, height
    printf "<title>%s</title>\n", title
    print "<style>.back{fill:#0d1117}text{fill:#c9d1d9}.title{fill:#8b949e}.own{fill:#3fb950}.peer{fill:#6e7681}.floor{fill:#30363d}.spread{stroke:#f0f6fc;stroke-width:2}"
    print "@media (prefers-color-scheme: light) {.back{fill:#f6f8fa}text{fill:#1f2328}.title{fill:#59636e}.own{fill:#2da44e}.peer{fill:#afb8c1}.floor{fill:#d8dee4}.spread{stroke:#1f2328}}</style>"
    print "<rect class=\"back\" width=\"100%\" height=\"100%\" rx=\"8\"/>"
    print "<g font-family=\"sans-serif\" font-size=\"13\">"
    printf "<text class=\"title\" x=\"50%%\" y=\"21\" text-anchor=\"middle\" font-size=\"12\">%s</text>\n", title
    y = 34
    for (which = 1; which <= 2; ++which) {
      printf "<text class=\"title\" x=\"16\" y=\"%d\" font-size=\"12\">%s</text>\n", y + 12, \
        which == 1 ? "guards one host" : "guards a fleet: client and server on this machine"
      y += 20
      for (i = 1; i <= count; ++i) if (group(tools[i]) == which) bar(tools[i])
      y += 4
    }
    note("bar: median of " pairs " runs; line: from quartile to quartile. " machine)
    note(versions)
    note("The C programs are no lock tools: they only connect, update the row twice and fork.")
    print "</g>\n</svg>"
  }
' "$1"
