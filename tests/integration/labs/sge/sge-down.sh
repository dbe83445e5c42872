#!/usr/bin/env bash
# Ends what sge-up.sh started, its jobs first, and removes the folder SGE_LAB. Other Grid Engines on the machine are let
# alone: what is ended is a program of Grid Engine that works in this folder.
set -uo pipefail
. "$(dirname "$0")/../ending.sh"
lab=$(realpath -m "${SGE_LAB:?the folder given to sge-up.sh}")
settings=$lab/default/common/settings.sh
[ -f "$settings" ] || { echo "$lab is not a folder of sge-up.sh" >&2; exit 2; }
. "$settings"

own() { # PROGRAM...: numbers of those processes
  local program process
  for program in "$@"; do
    for process in $(pgrep -x "$program"); do
      [[ $(readlink "/proc/$process/cwd" 2> /dev/null) == "$lab"/* ]] && echo "$process"
    done
  done
}

if [ -n "$(own sge_qmaster)" ]; then # else there is nobody to ask
  timeout 10 qdel -u '*' > /dev/null 2>&1
  for _ in $(seq 1 70); do
    [ -z "$(timeout 10 qstat -u '*' 2> /dev/null)" ] && break
    sleep 0.1
  done
fi
# daemons before the shepherds of jobs, so that nothing new is started
finish KILL 20 sge_qmaster # which takes ten seconds over its good-byes otherwise, and keeps nothing
finish TERM 50 sge_execd || finish KILL 20 sge_execd
for shepherd in $(own sge_shepherd); do # of jobs that would not end
  left=$(below "$shepherd")
  [ -n "$left" ] && kill -KILL $left 2> /dev/null
done
finish KILL 20 sge_shepherd
rm -rf "$lab"
