#!/bin/bash
# Ends what ceph-up.sh started, and deletes its folder.
set -u
LAB=${CEPH_LAB:?set CEPH_LAB to the folder ceph-up.sh was given}
[ -f "$LAB/ceph.conf" ] || { echo "$LAB holds no ceph.conf of ceph-up.sh: nothing is done" >&2; exit 1; }
for file in "$LAB"/run/client.rgw*.pid "$LAB"/run/osd.0.pid "$LAB"/run/mon.a.pid; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2> /dev/null
    for _ in $(seq 50); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2> /dev/null
done
rm -rf "$LAB"
