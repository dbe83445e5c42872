#!/usr/bin/env bash
# Ends what slurm-up.sh started, its jobs first, and removes the folder SLURM_LAB. Other Slurms on the machine are let
# alone: what is ended is a Slurm program that has a file of this folder open.
set -uo pipefail
. "$(dirname "$0")/../ending.sh"
lab=$(realpath -m "${SLURM_LAB:?the folder given to slurm-up.sh}")
export SLURM_CONF=$lab/etc/slurm.conf
[ -f "$SLURM_CONF" ] || { echo "$lab is not a folder of slurm-up.sh" >&2; exit 2; }

own() { # PROGRAM...: numbers of those processes
  local process program
  for process in /proc/[0-9]*; do
    program=$(readlink "$process/exe" 2> /dev/null) && program=${program##*/}
    [[ " $* " == *" ${program%-wlm} "* ]] || continue # so Debian names them
    find "$process/fd" -lname "$lab/*" -print -quit 2> /dev/null | grep -q . && echo "${process##*/}"
  done
}

if [ -n "$(own slurmctld)" ]; then # else there is nobody to ask
  timeout 10 scancel --user="$(id -un)" 2> /dev/null
  for _ in $(seq 1 70); do
    [ -z "$(timeout 10 squeue --noheader 2> /dev/null)" ] && break
    sleep 0.1
  done
fi
# daemons before the steps of jobs, so that nothing new is started; munged last, since they talk through it
finish TERM 50 slurmctld slurmd || finish KILL 20 slurmctld slurmd
for step in $(own slurmstepd); do # of jobs that would not end
  left=$(below "$step")
  [ -n "$left" ] && kill -KILL $left 2> /dev/null
done
finish KILL 20 slurmstepd
finish TERM 50 munged || finish KILL 20 munged
rm -rf "$lab"
