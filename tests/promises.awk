# Judges promises.txt; used by promises.sh. usage: promises.awk NAMES PAGES... promises.txt
# NAMES: the names of tests, each a line. A page is read as paragraphs and sentences, of which only letters and digits
# count; a page in mdoc without the names of macros.
#
# A sentence of mdoc ends with its line (mdoc has a new sentence begin on a new line): the line ends with a full stop and
# not with an abbreviation. It ends as well with its paragraph, with the item of a list, and with a colon before an
# example or a list. The head of an item belongs to the item's first sentence.

function complain(text) {
  print text
  bad = 1
}

function end_of_sentence(  words) {
  words = sentence
  gsub(/[^A-Za-z0-9]/, "", words)
  if (words != "") {
    ++sentences
    says[sentences] = sentence
    leads_in[sentences] = sentence ~ /: *$/
    begins[sentences] = length(paragraph) + 1
    paragraph = paragraph words
    ends[sentences] = length(paragraph)
    in_paragraph[sentences] = paragraphs + 1
  }
  sentence = ""
}

function end_of_paragraph() {
  end_of_sentence()
  if (paragraph != "") {
    text_of[++paragraphs] = paragraph
    page_of[paragraphs] = page
  }
  paragraph = ""
}

function is_end_of_sentence(line) {
  return line ~ /[.?!]\)? *$/ && line !~ /(^|[ (])(e\.g|i\.e|etc|cf|vs)\. *$/
}

# The words of a line that begins with a macro.
function words_of_macro(  i, line) {
  line = ""
  sub(/^\./, "")
  for (i = 1; i <= NF; ++i) {
    if ($i == "Nm") { if ($(i + 1) !~ /^dblock/) line = line " dblock" }
    else if ($i !~ /^[A-Z][a-z]$/) line = line " " $i
  }
  return line
}

function line_of_mdoc(  line) {
  if (/^\.(\\"|Dd|Dt|Os|Nd|Nm dblock-)/ || over) return
  if (/^\.Bd/) literal = 1 # examples promise nothing
  if (/^\.Ed/) literal = 0
  if (literal || /^\.(Sh|Ss|Pp|Bl|El|Ed)/) {
    if (/^\.Bl/) compact = /-compact/
    if (/^\.Sh SEE ALSO/) over = 1
    end_of_paragraph()
    return
  }
  if (/^\.It/) { if (compact) end_of_sentence(); else end_of_paragraph() }
  line = /^\./ ? words_of_macro() : " " $0
  sentence = sentence line
  if (is_end_of_sentence(line)) end_of_sentence()
}

function line_of_page() {
  if (page ~ /\.[1-9]$/) { line_of_mdoc(); return }
  if (/^ *$/ || /^ *([-*|]|[0-9]+[.])/) end_of_paragraph()
  sentence = sentence " " $0
}

# Marks each sentence that the quote touches.
function find_quote(  words, i, found, at, s) {
  words = quote
  gsub(/[^A-Za-z0-9]/, "", words)
  for (i = 1; i <= paragraphs; ++i) {
    if (page_of[i] != quoted_page || !(at = index(text_of[i], words))) continue
    ++found
    for (s = 1; s <= sentences; ++s)
      if (in_paragraph[s] == i && begins[s] < at + length(words) && ends[s] >= at)
        entries_of[s] = entries_of[s] " " entries
  }
  if (found != 1) complain("in " found + 0 " paragraphs of " quoted_page ": " quote)
}

function end_of_quote() {
  if (quote != "" && !answered) complain("neither test nor " kinds ": " quote)
  quote = ""
}

function line_of_list(  word) {
  if (/^ *$/ || /^#/) return
  if (sub(/^= /, "")) { end_of_quote(); quoted_page = $0; return }
  if (!/^  /) {
    end_of_quote()
    quote = $0; answered = 0; ++entries
    find_quote()
    return
  }
  answered = 1
  sub(/^  /, "")
  word = $1
  if (word == "test" || (word == "never" && NF > 1) || ($0 == word && word ~ /^(limit|advice|background)$/)) ++count[word]
  else complain("neither test nor " kinds ": " $0)
  if (word == "test") tested[entries] = 1
  if (word == "test" && sub(/^test /, "") && !($0 in is_test)) complain("no test \"" $0 "\": " quote)
}

BEGIN { kinds = "never, limit, advice or background" }
FNR == 1 { ++file; end_of_paragraph(); over = literal = compact = 0; page = FILENAME }
file == 1 { is_test[$0] = 1; next }
FILENAME == "tests/promises.txt" { line_of_list(); next }
{ line_of_page() }

END {
  end_of_quote()
  for (s = 1; s <= sentences; ++s) {
    if (page_of[in_paragraph[s]] != "man/dblock-safety.7" || leads_in[s]) continue
    ++all
    if (entries_of[s] == "") { complain("no entry for the sentence:" says[s]); continue }
    n = split(entries_of[s], of, " ")
    for (i = 1; i <= n && !tested[of[i]]; ++i) continue
    if (i <= n) ++with_test
  }
  if (entries < 100 || count["test"] < entries / 2) complain("promises.txt is not whole")
  printf "%d sentences of dblock-safety(7), %d of them with tests; %d entries: %d tests named, %d that no test can break, %d limits, %d of advice, %d of background\n",
    all, with_test, entries, count["test"], count["never"], count["limit"], count["advice"], count["background"]
  exit bad
}
