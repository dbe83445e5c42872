#!/usr/bin/env bash
# A Grid Engine of one machine, to try things on: one host with SLOTS slots, everything under the folder SGE_LAB.
# Needs root and Debian's gridengine-master, gridengine-exec and gridengine-client (apt-get install
# --no-install-recommends); no systemd. Only this machine may submit jobs, but its ports are open on all networks.
#
#   export SGE_LAB=/tmp/lab; tests/integration/labs/sge/sge-up.sh
#   . $SGE_LAB/default/common/settings.sh             # all that clients need
#   qhost
#   tests/integration/labs/sge/sge-down.sh
#
# PORT is the first of the two ports that it listens on: several labs on one machine need a folder and ports each.
# OWNER is the number of a process: when that ends, killed or not, the lab is taken down.
set -euo pipefail
lab=$(realpath -m "${SGE_LAB:?a folder for all state}") slots=${SLOTS:-8} port=${PORT:-16444}
host=$(hostname) here=$(dirname "$(realpath "$0")") programs=/usr/lib/gridengine texts=/usr/share/gridengine

[ ! -e "$lab/default/common/bootstrap" ] ||
  { echo "$lab is in use; take it down first: $here/sge-down.sh" >&2; exit 2; }
getent hosts "$host" > /dev/null || { echo "the name of this machine, $host, has no address: add it to /etc/hosts" >&2; exit 2; }
for number in "$port" $((port + 1)); do
  if (: < "/dev/tcp/127.0.0.1/$number") 2> /dev/null; then
    echo "port $number is taken, by another lab perhaps: give PORT, the first of 2 free ports" >&2
    exit 2
  fi
done
common=$lab/default/common
mkdir -p "$common" "$lab"/{spool,qmaster,execd,tmp}
chmod 755 "$lab"
chmod 1777 "$lab/tmp" # folders of jobs, removed with them
ln -s "$texts/util" "$lab/util"

cat > "$common/bootstrap" << EOF
admin_user              none
default_domain          none
ignore_fqdn             true
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         $lab/spool
binary_path             $programs
qmaster_spool_dir       $lab/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
EOF
echo "$host" > "$common/act_qmaster"
echo "$host localhost" > "$common/host_aliases" # what 127.0.0.1 may be called
cat > "$common/settings.sh" << EOF
export SGE_ROOT='$lab' SGE_CELL=default SGE_QMASTER_PORT=$port SGE_EXECD_PORT=$((port + 1))
EOF
. "$common/settings.sh"
export LD_LIBRARY_PATH=$programs

# the administrator's account is root's, who may run jobs; a job's group, by which it is killed, is of its own range
sed -e "s|^execd_spool_dir .*|execd_spool_dir $lab/execd|" -e 's/^min_uid .*/min_uid 0/' -e 's/^min_gid .*/min_gid 0/' \
  -e 's|^mailer .*|mailer /bin/true|' -e 's/^load_report_time .*/load_report_time 0:0:2/' -e "s|^gid_range .*|gid_range $((port + 50000))-$((port + 50200))|" \
  "$texts/default-configuration" > "$lab/configuration"
"$programs/spoolinit" berkeleydb libspoolb "$lab/spool" init
"$programs/spooldefaults" configuration "$lab/configuration"
"$programs/spooldefaults" complexes "$texts/util/resources/centry"
"$programs/spooldefaults" usersets "$texts/util/resources/usersets"
"$programs/spooldefaults" managers root

if [ -n "${OWNER:-}" ]; then # in a session of its own, so that it outlives what is killed with the owner
  SGE_LAB=$lab setsid --fork bash -c \
    'while [ -e "/proc/$1" ] && [ -e "$SGE_LAB/default" ]; do sleep 1; done; [ ! -e "$SGE_LAB/default" ] || "$2"' \
    watch "$OWNER" "$here/sge-down.sh" > /dev/null 2>&1 < /dev/null
fi
"$programs/sge_qmaster"
{
  for _ in $(seq 1 100); do
    qconf -as "$host" && break # may submit; the first to ask whether anybody listens yet
    sleep 0.1
  done
  "$programs/sge_execd"
  # jobs start within seconds, whatever the load
  qconf -ssconf | sed -e 's/^schedule_interval .*/schedule_interval 0:0:2/' -e 's/^flush_submit_sec .*/flush_submit_sec 1/' \
    -e 's/^flush_finish_sec .*/flush_finish_sec 1/' -e 's/^job_load_adjustments .*/job_load_adjustments NONE/' \
    -e 's/^load_adjustment_decay_time .*/load_adjustment_decay_time 0:0:0/' > "$lab/scheduler"
  qconf -Msconf "$lab/scheduler"
  qconf -Ap "$texts/util/resources/pe/smp"
  # memory is counted: each job takes what it asks for from what the host has, and is killed if it takes more
  qconf -sc | sed 's/^h_vmem .*/h_vmem h_vmem MEMORY <= YES YES 500M 0/' > "$lab/complexes"
  qconf -Mc "$lab/complexes"
  qconf -rattr exechost complex_values "h_vmem=${MEMORY_MB:-16000}M" "$host"
  EDITOR=/bin/cat qconf -aq all.q < /dev/null 2> /dev/null | sed -e "s/^hostlist .*/hostlist $host/" \
    -e "s/^slots .*/slots $slots/" -e 's/^load_thresholds .*/load_thresholds NONE/' -e 's/^pe_list .*/pe_list smp/' \
    -e "s|^tmpdir .*|tmpdir $lab/tmp|" -e '/^[a-z_]* /!d' > "$lab/queue"
  qconf -Aq "$lab/queue"
} > "$lab/up.log" 2>&1 || { cat "$lab/up.log" >&2; exit 1; }
for _ in $(seq 1 200); do
  qhost -q 2> /dev/null | grep -q "all.q .*0/0/$slots *$" && exit 0 # with no letter of a trouble behind
  sleep 0.1
done
echo "the host did not come up; logs are in $lab/qmaster and $lab/execd" >&2
qstat -f >&2 || true
exit 1
