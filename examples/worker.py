#!/usr/bin/env python3
"""A Windlass worker with nothing but the standard library: worker.py QUEUE. Write your work into handle()."""
import json, os, signal, sys, threading, time, urllib.request, uuid

SERVER = os.environ.get("WINDLASS_SERVER", "http://127.0.0.1:7800")
QUEUE, WORKER, LEASE = sys.argv[1], "py-" + uuid.uuid4().hex, 30  # a name of its own for every process
stopping = threading.Event()

def handle(payload, job):
    """What a job is for. What it returns is the result; what it raises is the failure. A job may be delivered again:
    job["id"] is the same then, and job["fence"] is larger, so that what you call can tell."""
    return {"sum": sum(payload["numbers"])}


def say(**what):
    """Everything a worker has to say, and what it has room for, in one request."""
    headers = {"Content-Type": "application/json"}
    if "WINDLASS_KEY" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["WINDLASS_KEY"]
    body = json.dumps({"worker": WORKER, "leaseMs": LEASE * 1000, **what}).encode()
    request = urllib.request.Request(f"{SERVER}/v1/queues/{QUEUE}/claim", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def work(job):
    held, done = {"job": job["id"], "fence": job["fence"]}, threading.Event()

    def beat():  # three signs of life in a lease, or the job goes to somebody else
        while not done.wait(LEASE / 3):
            say(heartbeat=[held])
    threading.Thread(target=beat, daemon=True).start()
    try:
        return {"complete": [{**held, "result": handle(job.get("payload"), job)}]}
    except Exception as error:
        return {"fail": [{**held, "error": {"class": type(error).__name__, "message": str(error)}}]}
    finally:
        done.set()


signal.signal(signal.SIGTERM, lambda *_: stopping.set())
said = {}  # what ended is said with the next claim: one request per job
while said or not stopping.is_set():
    try:
        room = {} if stopping.is_set() else {"max": 1, "wait": "0s" if said else "5s"}
        claimed, said = say(**said, **room)["claimed"], {}
        said = work(claimed[0]) if claimed else {}
    except OSError as error:  # nobody answers: what is to be said is said again
        print(error, file=sys.stderr)
        time.sleep(1)
