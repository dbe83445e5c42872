#!/bin/bash
# A throw-away Ceph of one process each (monitor, OSD in memory, S3 gateway) on loopback, with one user.
# Needs: apt-get install -y --no-install-recommends ceph-mon ceph-osd radosgw ceph-common uuid-runtime curl
# CEPH_LAB: folder for all state. S3_PORT, MON_PORT: ports. OSD_BYTES: most bytes stored, all in memory.
set -euo pipefail
trap 'echo "line $LINENO of ceph-up.sh failed: $BASH_COMMAND; see $CEPH_LAB/log" >&2' ERR
LAB=${CEPH_LAB:?set CEPH_LAB to a folder that may be deleted}
PORT=${S3_PORT:-18336} MON_PORT=${MON_PORT:-16789} OSD_BYTES=${OSD_BYTES:-1073741824}
[ ! -e "$LAB" ] || { echo "$LAB exists: run ceph-down.sh first, or set CEPH_LAB to another folder" >&2; exit 1; }
mkdir -p "$LAB"/{mon,osd,rgw,run,log}
FSID=$(uuidgen)
cat > "$LAB/ceph.conf" <<CONF
[global]
fsid = $FSID
mon host = v1:127.0.0.1:$MON_PORT
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
ms bind ipv4 = true
ms bind msgr1 = true
ms bind msgr2 = false
auth cluster required = none
auth service required = none
auth client required = none
auth supported = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 0
mon data avail warn = 0
mon max pg per osd = 1000
run dir = $LAB/run
admin socket = $LAB/run/\$name.asok
pid file = $LAB/run/\$name.pid
log file = $LAB/log/\$name.log
setuser match path =
[mon]
mon data = $LAB/mon
[osd]
osd data = $LAB/osd
osd objectstore = memstore
memstore device bytes = $OSD_BYTES
osd class load list = *
osd class default list = *
[client.rgw]
rgw data = $LAB/rgw
rgw frontends = beast endpoint=127.0.0.1:$PORT
rgw thread pool size = 32
rgw dns name = 127.0.0.1
debug rgw = 0
CONF
export CEPH_CONF="$LAB/ceph.conf"
CONF=(-c "$CEPH_CONF")
monmaptool --create --clobber --addv a "[v1:127.0.0.1:$MON_PORT]" --fsid "$FSID" "$LAB/monmap" > /dev/null
ceph-mon "${CONF[@]}" --mkfs -i a --monmap "$LAB/monmap"
ceph-mon "${CONF[@]}" -i a
OSD=$(uuidgen)
timeout 30 ceph "${CONF[@]}" osd new "$OSD" > /dev/null
ceph-osd "${CONF[@]}" -i 0 --mkfs --osd-uuid "$OSD" 2> /dev/null
for try in 1 2 3 4 5; do  # it gives up if it asks for its class before it was told the monitors' map
    ceph-osd "${CONF[@]}" -i 0 > /dev/null 2>&1 && break
    [ "$try" != 5 ]
    sleep 0.5
done
for _ in $(seq 100); do ceph "${CONF[@]}" osd stat 2> /dev/null | grep -q '1 up' && break; sleep 0.1; done
radosgw "${CONF[@]}" -n client.rgw
for _ in $(seq 300); do curl -s -o /dev/null "http://127.0.0.1:$PORT/" && break; sleep 0.1; done
radosgw-admin "${CONF[@]}" -n client.rgw user create --uid=lab --display-name=lab --access-key=testkey \
    --secret-key=testsecret > /dev/null 2>&1
echo "S3 at http://127.0.0.1:$PORT, AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=testsecret"
