#!/bin/sh
# A script that starts a process for each word of its work: many short pieces, each of another process.
if [ "$1" = fixed ]; then
    seq 150 | sed 's/^/row /' | tr 'a-z' 'A-Z' >/dev/null
    exit
fi
for number in $(seq 150); do
    echo "line $number" | sed 's/line/row/' | tr 'a-z' 'A-Z' >/dev/null
done
