#!/usr/bin/env bash
# A Slurm of one machine, to try things on: NODES virtual nodes, everything under the folder SLURM_LAB, loopback only.
# Needs root and Debian's slurm-wlm and munge (apt-get install --no-install-recommends slurm-wlm munge); no systemd.
#
#   export SLURM_LAB=/tmp/lab; tests/integration/labs/slurm/slurm-up.sh
#   export SLURM_CONF=$SLURM_LAB/etc/slurm.conf        # all that clients need
#   sinfo
#   tests/integration/labs/slurm/slurm-down.sh
#
# PORT is the first of 1 + NODES ports that it listens on: several labs on one machine need a folder and ports each.
# OWNER is the number of a process: when that ends, killed or not, the lab is taken down.
set -euo pipefail
lab=$(realpath -m "${SLURM_LAB:?a folder for all state}") nodes=${NODES:-2} cpus=${CPUS:-2} memory=${MEMORY_MB:-8000}
port=${PORT:-16817} host=$(hostname -s) here=$(dirname "$(realpath "$0")")

[ ! -e "$lab/etc/slurm.conf" ] || { echo "$lab is in use; take it down first: $here/slurm-down.sh" >&2; exit 2; }
for number in $(seq "$port" $((port + nodes))); do
  if (: < "/dev/tcp/127.0.0.1/$number") 2> /dev/null; then
    echo "port $number is taken, by another lab perhaps: give PORT, the first of $((nodes + 1)) free ports" >&2
    exit 2
  fi
done
mkdir -p "$lab"/{etc,run,log,state,munge}
chmod 755 "$lab"
chmod 700 "$lab/munge"
[ -f "$lab/munge/munge.key" ] || (umask 077 && head -c 1024 /dev/urandom > "$lab/munge/munge.key")
munged --key-file="$lab/munge/munge.key" --socket="$lab/run/munge.sock" --pid-file="$lab/run/munged.pid" \
  --log-file="$lab/log/munged.log" --seed-file="$lab/munge/seed" --num-threads=2 --force

echo "CgroupAutomount=no" > "$lab/etc/cgroup.conf"
cat > "$lab/etc/slurm.conf" << EOF
ClusterName=lab
# the address in brackets spares a look-up of the host's name
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
AuthType=auth/munge
# a job that is queued again waits until credentials of its former turn have expired: 2 minutes by default
AuthInfo=socket=$lab/run/munge.sock,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoAddrCache
MpiDefault=none
# without cgroups, memory is enforced by looking at it each second
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=5,bf_interval=5,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
# nodes may claim more than the machine has
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MinJobAge=60
SlurmctldTimeout=30
SlurmdTimeout=60
StateSaveLocation=$lab/state
SlurmdSpoolDir=$lab/spool-%n
SlurmctldPidFile=$lab/run/slurmctld.pid
SlurmdPidFile=$lab/run/slurmd-%n.pid
SlurmctldLogFile=$lab/log/slurmctld.log
SlurmdLogFile=$lab/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
EOF
for node in $(seq 1 "$nodes"); do
  mkdir -p "$lab/spool-n$node"
  echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + node)) CPUs=$cpus RealMemory=$memory"
done >> "$lab/etc/slurm.conf"
# LLN spreads jobs over the nodes
echo "PartitionName=debug Nodes=ALL Default=YES LLN=YES MaxTime=01:00:00 State=UP" >> "$lab/etc/slurm.conf"

export SLURM_CONF=$lab/etc/slurm.conf
if [ -n "${OWNER:-}" ]; then # in a session of its own, so that it outlives what is killed with the owner
  SLURM_LAB=$lab setsid --fork bash -c \
    'while [ -e "/proc/$1" ] && [ -e "$SLURM_CONF" ]; do sleep 1; done; [ ! -e "$SLURM_CONF" ] || "$2"' \
    watch "$OWNER" "$here/slurm-down.sh" > /dev/null 2>&1 < /dev/null
fi
slurmctld -c -f "$SLURM_CONF"
for node in $(seq 1 "$nodes"); do slurmd -N "n$node" -f "$SLURM_CONF"; done
for _ in $(seq 1 200); do
  [ "$(sinfo --noheader --states=idle --format=%D 2> /dev/null)" = "$nodes" ] && exit 0
  sleep 0.1
done
echo "the nodes did not come up; logs are in $lab/log" >&2
sinfo >&2 || true
exit 1
