#!/usr/bin/env bash

#BSUB -J spae-1a2b3c4d
#BSUB -e spae-logs/worker-%J.err
#BSUB -o spae-logs/worker-%J.out
#BSUB -q normal
#BSUB -P "project"
#BSUB -n 4
#BSUB -R "span[hosts=1]"
#BSUB -M 17179870
#BSUB -W 04:00
#BSUB -R select[big]
module load python/3.11
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export GREETING='it'"'"'s $HOME; `id`'
source $HOME/venv/bin/activate
/opt/venv/bin/python -m distributed.cli.dask_worker tcp://10.0.0.1:4242 --name worker --nthreads 2 --memory-limit 7.20GiB --nworkers 2 --nanny --death-timeout 30 --local-directory '/local/my scratch' --no-dashboard --lifetime 13800s --lifetime-stagger 300s --interface ib0
