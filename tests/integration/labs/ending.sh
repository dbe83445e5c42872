# Functions of the scripts that end a lab. `own PROGRAM...`, which each script defines, prints the numbers of its processes.

below() { # NUMBER: numbers of its children, theirs, and so on
  local child
  for child in $(pgrep -P "$1"); do
    below "$child"
    echo "$child"
  done
}

finish() { # SIGNAL TENTHS PROGRAM...: until none is left, or the time is over
  local signal=$1 tenths=$2 left
  shift 2
  left=$(own "$@")
  [ -n "$left" ] && kill "-$signal" $left 2> /dev/null
  for _ in $(seq 1 "$tenths"); do
    [ -z "$(own "$@")" ] && return 0
    sleep 0.1
  done
  return 1
}
