#!/usr/bin/env bash

#$ -N spae-1a2b3c4d
#$ -q normal
#$ -P project
#$ -l h_vmem=4608M
#$ -l h_rt=04:00:00
#$ -e spae-logs/
#$ -o spae-logs/
#$ -cwd
#$ -j y
#$ -S /bin/bash
#$ -r n
#$ -pe smp 4
#$ -l gpu=0
module load python/3.11
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export MALLOC_ARENA_MAX=2
export GREETING='it'"'"'s $HOME; `id`'
source $HOME/venv/bin/activate
/opt/venv/bin/python -m distributed.cli.dask_worker tcp://10.0.0.1:4242 --name worker --nthreads 2 --memory-limit 7.20GiB --nworkers 2 --nanny --death-timeout 30 --local-directory '/local/my scratch' --no-dashboard --lifetime 13800s --lifetime-stagger 300s --interface ib0
