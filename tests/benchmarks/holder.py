"""A process that starts another which holds some bytes for a second: what the watching of processes is tested on."""

import json
import subprocess
import sys

HOLD = "import sys, time; held = b'x' * int(sys.argv[1]); time.sleep(1.5)"

if __name__ == "__main__":
    nbytes = int(sys.argv[1])
    if nbytes < 0:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], check=True)
    subprocess.run([sys.executable, "-c", HOLD, str(nbytes)], check=True)
    print(json.dumps({"held": nbytes}))
