# Every statement of C++ that holds prose, as its string literals in their order; "…" stands for what is
# between them. Out of two branches of a condition come two lines, since one of them is said.
function finish() {
  sub(/^ +/, "", pattern)
  sub(/ +$/, "", pattern)
  if (prose && pattern !~ /^(ALTER|CREATE|DELETE|INSERT|SELECT|UPDATE) /) print pattern
  pattern = ""
  some = between = prose = 0
}
function literal(text) {
  gsub(/\\"/, "\"", text)
  gsub(/\\n/, " ", text)
  gsub(/\\\\/, "\\", text)
  if (some && between) pattern = pattern "…"
  pattern = pattern text
  if (text != "") { some = 1; between = 0 }
  if (pattern ~ /[a-z][a-z]+[,;:]? +[a-z"`(-]/) prose = 1
}
# What is no literal. A condition is no part of the message that follows it.
function code(text) {
  gsub(/::/, "", text)
  if (text ~ /[?:]|(^|[^a-z_])return([^a-z_]|$)/) finish()
  if (text ~ /[^ \t]/) between = 1
}
FNR == 1 { finish(); in_comment = in_raw = 0 }
{
  line = $0
  if (!in_comment && !in_raw && line ~ /^[ \t]*#/) next
  while (line != "") {
    if (in_comment) {
      at = index(line, "*/")
      if (!at) break
      in_comment = 0
      line = substr(line, at + 2)
    } else if (in_raw) {
      at = index(line, ")\"")
      if (!at) { raw = raw line " "; break }
      literal(raw substr(line, 1, at - 1))
      in_raw = 0
      line = substr(line, at + 2)
    } else if (!match(line, /\/\/|\/\*|R"\(|["';{}]/)) {
      code(line)
      break
    } else {
      before = substr(line, 1, RSTART - 1)
      mark = substr(line, RSTART, RLENGTH)
      line = substr(line, RSTART + RLENGTH)
      code(before)
      if (mark == "//") break
      if (mark == "/*") in_comment = 1
      else if (mark == "R\"(") { in_raw = 1; raw = "" }
      else if (mark == "'") {
        if (before ~ /[0-9a-fA-F]$/ && line ~ /^[0-9a-fA-F]/) continue  # 1'000
        if (!match(line, /^(\\.[^']*|.)'/)) { print FILENAME ":" FNR ": not understood"; exit 1 }
        between = 1
        line = substr(line, RLENGTH + 1)
      } else if (mark == "\"") {
        match(line, /^([^"\\]|\\.)*/)
        text = substr(line, 1, RLENGTH)
        line = substr(line, RLENGTH + 2)
        literal(text)
      } else finish()
    }
  }
}
END { finish() }
