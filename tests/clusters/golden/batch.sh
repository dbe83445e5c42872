#!/usr/bin/env bash
#SBATCH --job-name=spae-p
#SBATCH --output=spae-logs/spae-p-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=8192M
#SBATCH --partition=normal
#SBATCH --account=project
#SBATCH --constraint=icelake
set -u
cd '/home/me/my runs' || exit 5
module load python/3.11
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export GREETING='it'"'"'s $HOME; `id`'
source $HOME/venv/bin/activate
job="$SLURM_JOB_ID"
# Slurm sends USR1 before the time limit. The command then stops and leaves only complete results. The job returns to
# the queue under its own number and resumes. scancel sends TERM, after which the job does not return to the queue.
over=
trap 'over=1; kill -TERM "${command:-}" 2> /dev/null' USR1
trap 'kill -TERM "${command:-}" 2> /dev/null' TERM
/opt/venv/bin/python -m spae_dask run '/home/me/my runs/p.toml' --cluster /home/me/slurm.toml &
command=$!
code=0
wait "$command" || code=$?
while kill -0 "$command" 2> /dev/null; do
  code=0
  wait "$command" || code=$?
done
if [ -n "$over" ] && [ "$code" -gt 128 ]; then
  if [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
    echo "spae: the time is over and work is left, so the job is queued again" >&2
    scontrol requeue "$job" && sleep 60
  else
    echo "spae: the time is over and work is left; submit again to resume, or allow more with --max-resubmits" >&2
  fi
fi
exit "$code"
