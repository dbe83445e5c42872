#!/usr/bin/env bash

#PBS -N spae-1a2b3c4d
#PBS -q normal
#PBS -A project
#PBS -l select=1:ncpus=4:mem=16384MB
#PBS -l walltime=04:00:00
#PBS -e spae-logs/
#PBS -o spae-logs/
#PBS -l place=scatter
module load python/3.11
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export GREETING='it'"'"'s $HOME; `id`'
source $HOME/venv/bin/activate
/opt/venv/bin/python -m distributed.cli.dask_worker tcp://10.0.0.1:4242 --name worker --nthreads 2 --memory-limit 7.20GiB --nworkers 2 --nanny --death-timeout 30 --local-directory '/local/my scratch' --no-dashboard --lifetime 13800s --lifetime-stagger 300s --interface ib0
