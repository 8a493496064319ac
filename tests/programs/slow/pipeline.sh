#!/bin/sh
# A pipeline whose first command ends late since the last one takes its time.
if [ "$1" = fixed ]; then
    head -c 1000 /dev/urandom | gzip >/dev/null
    exit
fi
head -c 12000000 /dev/urandom | gzip >/dev/null
