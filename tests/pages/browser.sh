#!/bin/bash
# A browser shows the pages of history and inspect as they are meant: each run has its bar, outcomes have their colours on
# light and dark screens, nothing that a row made up is taken for markup, and the pages can be printed.
# usage: DBLOCK=path/to/dblock browser.sh SOURCE_DIRECTORY CHROMIUM
set -eu

if [ $# -ne 2 ] || [ -z "${DBLOCK-}" ]; then
  echo "usage: DBLOCK=path/to/dblock $0 SOURCE_DIRECTORY CHROMIUM" >&2
  exit 2
fi
source=$1 chromium=$2
[ -x "$chromium" ] || {
  echo "NOT RUN: there is no chromium"
  exit 0
}
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
: >"$box/none"
export DBLOCK_DB="sqlite:$box/locks.db" DBLOCK_CONFIG="$box/none" DBLOCK_HOLDER='etl@host<1>'

fail() {
  echo "$*" >&2
  exit 1
}

browser() {
  rm -rf "$box/profile"
  timeout 60 "$chromium" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$box/profile" \
    --enable-logging=stderr "$@" 2>"$box/log"
  # What a page's policy forbids, or a script says, is a line of the console.
  ! grep CONSOLE "$box/log" >&2 || fail "the browser complains about a page"
}

expect() { # NUMBER PATTERN FILE
  local count
  count=$(grep -oE -- "$2" "$3" | wc -l)
  [ "$count" = "$1" ] || fail "$3 has $count times $2, not $1"
}

ends() { # CODE COMMAND...
  local code=0 wanted=$1
  shift
  "$@" 2>/dev/null || code=$?
  [ "$code" = "$wanted" ] || fail "$* ended with $code, not $wanted"
}

"$DBLOCK" migrate --history on >/dev/null
ends 0 "$DBLOCK" run -k nightly-etl -- sleep 0.5
ends 7 "$DBLOCK" run -k nightly-etl --note '<script>document.title="owned"</script><img src=x>' -c 'sleep 0.4; exit 7'
ends 124 "$DBLOCK" run -k nightly-etl --max-runtime 400ms -- sleep 60
# shellcheck disable=SC2016 # the job's own
ends 137 "$DBLOCK" run -k deploy -c 'sleep 0.4; kill -9 $$'
for _ in 1 2; do "$DBLOCK" run -k slots --slots 2 -- sleep 0.5 & done
wait
"$DBLOCK" release -k script --owner "$("$DBLOCK" acquire -k script --ttl 1m)"
"$DBLOCK" history --format html >"$box/history.html"
"$DBLOCK" acquire -k "now'\"<i>" --ttl 1m >/dev/null
"$DBLOCK" inspect --format html >"$box/inspect.html"

browser --dump-dom "file://$box/history.html" >"$box/history.dom"
expect 7 '<a class="bar ' "$box/history.dom"
expect 7 '<tr id="r[0-9]' "$box/history.dom"
expect 4 '<li class="row' "$box/history.dom"
expect 1 '<li class="row many">' "$box/history.dom"
expect 3 '<div class="lane">.*<a class="bar ok|<div class="lane"><a class="bar ok' "$box/history.dom"
expect 1 '<title>dblock history</title>' "$box/history.dom"
expect 0 '<script|<img' "$box/history.dom"
browser --dump-dom "file://$box/inspect.html" >"$box/inspect.dom"
expect 1 '<a class="bar ok' "$box/inspect.dom"
expect 1 '<a class="bar M' "$box/inspect.dom"

# A page that looks at the pictures of a page: how many pixels have each of the colours of page.html?
colours() { # N: 1 light, 2 dark
  local name
  for name in page good red violet amber blue; do
    sed -n "s/.*--$name: \(#[0-9a-f]*\);.*/$name \1/p" "$source/src/cli/report/page.html" | sed -n "$1p"
  done
}
{
  cat <<'END'
<!doctype html><title>judge</title><body><script>
function count(id, wanted) {
  const image = document.getElementById(id), canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d", {willReadFrequently: true});
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
  context.fillStyle = wanted;
  context.fillRect(0, 0, 1, 1);
  const color = context.getImageData(0, 0, 1, 1).data;
  let found = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i] == color[0] && data[i + 1] == color[1] && data[i + 2] == color[2]) ++found;
  return found;
}
onload = () => { for (const line of document.querySelectorAll("b")) {
  const [id, name, color] = line.textContent.split(" ");
  line.textContent += " " + count(id, color);
} };
</script>
END
  for scheme in 1 2; do
    browser --screenshot="$box/$scheme.png" --window-size=1000,700 --hide-scrollbars \
      --blink-settings=preferredColorScheme=$((2 - scheme)) "file://$box/history.html" >/dev/null
    echo "<img id=s$scheme src=data:image/png;base64,$(base64 -w0 "$box/$scheme.png")>"
    colours $scheme | sed "s/.*/<b>s$scheme &<\/b>/"
  done
} >"$box/judge.html"
browser --dump-dom "file://$box/judge.html" >"$box/judge.dom"
grep -o '<b>[^<]*' "$box/judge.dom" >"$box/pixels"
expect 12 's[12] ' "$box/pixels"
while read -r picture name _ count; do
  least=40
  [ "$name" != page ] || least=300000
  [ "$count" -ge $least ] || fail "$picture: only $count pixels of $name"
done < <(sed 's/<b>//' "$box/pixels")

browser --print-to-pdf="$box/page.pdf" --no-pdf-header-footer "file://$box/history.html" >/dev/null
[ "$(head -c 4 "$box/page.pdf")" = %PDF ] || fail "no PDF"
[ "$(grep -acE '/Type */Page([^s]|$)' "$box/page.pdf")" -ge 1 ] || fail "a PDF without pages"
echo "pages: a browser shows them, light, dark and printed"
