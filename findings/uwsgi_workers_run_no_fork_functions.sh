#!/usr/bin/env bash
# uWSGI 2.0.30 (pyuwsgi), Python 3.11, functions of `os.register_at_fork`.
#
# A worker is forked by uWSGI's own C code, and Python does not hear of it: no registered
# function runs, neither before the fork nor after it, so locks, pools and random numbers
# that libraries renew there stay as they were. `--py-call-osafterfork` runs those of the
# child alone, without those that belong before the fork; `--py-call-uwsgi-fork-hooks` runs
# all of them. What has to be right in a worker compares `os.getpid()` as well.
#
# Seen:
# (none):
# --py-call-osafterfork: child
# --py-call-uwsgi-fork-hooks: before child
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyuwsgi==2.0.30"
cd "$folder"
cat > app.py <<'PY'
import os

ran = []
os.register_at_fork(
    before=lambda: ran.append("before"), after_in_child=lambda: ran.append("child")
)


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [" ".join(ran).encode()]
PY
cat > ask.py <<'PY'
import sys, time, urllib.request

for _ in range(100):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
        break
    except OSError:
        time.sleep(0.1)
PY
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
seen=""
for option in "" --py-call-osafterfork --py-call-uwsgi-fork-hooks; do
  # shellcheck disable=SC2086
  venv/bin/uwsgi --http "127.0.0.1:$port" --wsgi-file app.py --master --processes 1 \
    --home "$folder/venv" --die-on-term --enable-threads $option > log.txt 2>&1 &
  server=$!
  ran=$(venv/bin/python ask.py "http://127.0.0.1:$port/")
  kill -TERM "$server"
  wait "$server" || true
  seen+="${option:-(none)}: $ran"$'\n'
done
printf '%s' "$seen"
test "$seen" = $'(none): \n--py-call-osafterfork: child\n--py-call-uwsgi-fork-hooks: before child\n'
