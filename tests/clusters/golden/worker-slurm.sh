#!/usr/bin/env bash

#SBATCH -J spae-1a2b3c4d
#SBATCH -e spae-logs/spae-1a2b3c4d-%J.err
#SBATCH -o spae-logs/spae-1a2b3c4d-%J.out
#SBATCH -p normal
#SBATCH -A project
#SBATCH -n 1
#SBATCH --cpus-per-task=4
#SBATCH --mem=16384M
#SBATCH -t 04:00:00
#SBATCH --constraint=icelake
module load python/3.11
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export GREETING='it'"'"'s $HOME; `id`'
source $HOME/venv/bin/activate
/opt/venv/bin/python -m distributed.cli.dask_worker tcp://10.0.0.1:4242 --name worker --nthreads 2 --memory-limit 7.20GiB --nworkers 2 --nanny --death-timeout 30 --local-directory '/local/my scratch' --no-dashboard --lifetime 13800s --lifetime-stagger 300s --interface ib0
