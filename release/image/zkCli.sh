#!/bin/sh
# zkCli.sh [-server HOSTS] COMMAND ...: pyzk has the same names for ls, get, stat, create, set and delete.
if [ "$1" = -server ]; then export PYZK_HOSTS="$2"; shift 2; fi
exec python -m pyzk.server.app.image pyzk "$@"
