#!/bin/sh
# What health checks and commands of compose files call in other images.
run="python -m pyzk.server.app.image"
case "$1" in
    status) exec $run pyzk --session-timeout 3 health ;;
    start-foreground | "") exec $run ;;
    *) echo "zkServer.sh: only status and start-foreground" >&2; exit 2 ;;
esac
