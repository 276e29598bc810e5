#!/usr/bin/env bash
# Install pyzk-server beside the job's own Python, start it, wait for its readiness line, say where it is.
# Reads PYTHON, PORT, ARGUMENTS, SOURCE and the variables that the runner sets.
set -euo pipefail
home="${RUNNER_TEMP:?}/pyzk-server"
mkdir -p "$home"
"$PYTHON" -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --require-hashes --requirement "$SOURCE/release/lock.txt"
"$home/venv/bin/pip" install --quiet --no-deps "$SOURCE"
# shellcheck disable=SC2086 # several flags in one input
nohup "$home/venv/bin/pyzk-server" --port "$PORT" $ARGUMENTS >"$home/ready" 2>"$home/log" </dev/null &
while ! grep -q '^HTTP at ' "$home/ready"; do
    if ! kill -0 $! 2>/dev/null; then
        cat "$home/log" >&2
        exit 1
    fi
    sleep 0.05
done
{
    sed -n 's/^pyzk-server is ready at \([^ ]*\).*/hosts=\1/p; s/^HTTP at /http=/p' "$home/ready"
    echo "log=$home/log"
    echo "pid=$!"
} >>"$GITHUB_OUTPUT"
echo "$home/venv/bin" >>"$GITHUB_PATH"
cat "$home/ready"
