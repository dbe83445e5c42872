#!/usr/bin/env bash
# Ends what slurm-up.sh started, its jobs first, and removes the folder SLURM_LAB.
set -uo pipefail
lab=${SLURM_LAB:?the folder given to slurm-up.sh}
export SLURM_CONF=$lab/etc/slurm.conf
[ -f "$SLURM_CONF" ] || { echo "$lab is not a folder of slurm-up.sh" >&2; exit 2; }
scancel --user="$(id -un)" 2> /dev/null
for _ in $(seq 1 70); do
  [ -z "$(squeue --noheader 2> /dev/null)" ] && break
  sleep 0.1
done
for file in "$lab"/run/slurmd-*.pid "$lab/run/slurmctld.pid" "$lab/run/munged.pid"; do
  [ -s "$file" ] && kill "$(cat "$file")"
done
for _ in $(seq 1 50); do
  compgen -G "$lab/run/*.pid" > /dev/null || break
  sleep 0.1
done
rm -rf "$lab"
