"""Try claims against a driver, and tell of each on a line of JSON how it went: empty, or what went wrong."""

import json
import sys
import traceback

from schedkit.runtimes.drivers import open_runtime

from .bench import Bench
from .claims import CLAIMS

driver, *names = sys.argv[1:]
for name in names:
    bench = Bench(open_runtime(driver))
    try:
        try:
            CLAIMS[name](bench)
        finally:
            bench.close()
        wrong = ""
    except (Exception, KeyboardInterrupt):
        wrong = traceback.format_exc()
    print(json.dumps({"claim": name, "wrong": wrong}), flush=True)
