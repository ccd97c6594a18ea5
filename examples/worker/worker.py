#!/usr/bin/env python3
"""A remote worker of Stagepost in Python, with the standard library only.

    worker.py --server http://127.0.0.1:7433 --kind demo.count --state Counting --state Checking

It claims jobs, renews its claims while it works, and reports. A request whose answer is lost is sent again: claims
that nobody uses expire, and the server recognizes repeated reports. A token comes from STAGEPOST_TOKEN.
"""
import argparse
import http.client
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request


class Refused(Exception):
    """The server refused a request, or its answer is no JSON; repeating it would not help."""


class Server:
    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/"), token

    def post(self, path, body):
        """Sends a request until the server answers it."""
        pause = 0.1
        while True:
            request = urllib.request.Request(self.url + "/api/v1/worker/" + path, json.dumps(body).encode(), method="POST")
            request.add_header("Content-Type", "application/json")
            if self.token:
                request.add_header("Authorization", "Bearer " + self.token)
            try:
                with urllib.request.urlopen(request, timeout=90) as answer:
                    text = answer.read()
            except urllib.error.HTTPError as e:
                text = e.read().decode(errors="replace")
                if e.code not in (429, 502, 503, 504):
                    raise Refused(f"{e.code}: {text}") from e
            except (OSError, http.client.HTTPException):  # no connection, or an answer that broke off
                pass
            else:
                try:
                    return json.loads(text)
                except ValueError as e:  # the answer is complete: the next one would be the same
                    raise Refused(f"the answer to {path} is not JSON: {e}") from e
            time.sleep(pause)
            pause = min(2 * pause, 5)


class Claim(threading.Thread):
    """Renews a claim until it is released; lost is set when the server gave the job to another worker."""

    def __init__(self, server, worker, job, lease):
        super().__init__(daemon=True)
        self.server, self.worker, self.job, self.lease = server, worker, job, lease
        self.done, self.lost = threading.Event(), threading.Event()

    def run(self):
        while not self.done.wait(self.lease / 3):
            body = {"worker": self.worker, "lease": self.lease, "leases": [{"job": self.job["id"], "epoch": self.job["epoch"]}]}
            try:
                if self.server.post("renew", body)["lost"]:
                    self.lost.set()
                    return
            except Refused:
                self.lost.set()
                return


def count(job):
    words = len(job["spec"]["text"].split())
    return {
        "merge": {"words": words},
        "tasks": [{"name": "count", "kind": "demo.part", "state": "Done", "done": words, "total": words}],
        "log": [{"n": 2, "text": "counted", "attrs": {"words": words}}],
    }


def check(job):
    words = len(job["spec"]["text"].split())
    if job.get("data", {}).get("words") != words:
        return {"fail": f"{job.get('data')} is not {words} words", "cause": "wrong-number"}
    return {"merge": {"checked": True}, "log": [{"n": 2, "text": "checked"}]}


WORK = {"Counting": count, "Checking": check}


def work(server, worker, job, lease):
    claim = Claim(server, worker, job, lease)
    claim.start()
    head = {"job": job["id"], "epoch": job["epoch"]}
    try:
        server.post("update", {"worker": worker, "reports": [head | {
            "log": [{"n": 1, "text": "began", "attrs": {"worker": worker}}], "progress": {"done": 0, "total": 1, "unit": "texts"}}]})
        try:
            report = WORK[job["state"]](job)
        except Exception as e:  # whatever goes wrong is a failed attempt
            report = {"retry": f"{type(e).__name__}: {e}"}
        if not claim.lost.is_set():
            server.post("report", {"worker": worker, "reports": [head | report]})
    except Refused as e:
        print(f"{job['id']}: {e}", flush=True)
    finally:
        claim.done.set()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--server", default=os.environ.get("STAGEPOST_SERVER", "http://127.0.0.1:7433"))
    p.add_argument("--worker", default=f"{socket.gethostname()}-{os.getpid()}")
    p.add_argument("--kind", required=True)
    p.add_argument("--state", action="append", required=True)
    p.add_argument("--lease", type=float, default=15, help="seconds")
    p.add_argument("-n", type=int, default=1, help="jobs at once")
    a = p.parse_args()
    server = Server(a.server, os.environ.get("STAGEPOST_TOKEN"))
    places = [{"kind": a.kind, "state": s} for s in a.state]
    while True:
        try:
            jobs = server.post("claim", {"worker": a.worker, "from": places, "n": a.n, "lease": a.lease, "wait": 10})["jobs"]
        except Refused as e:
            sys.exit(f"claim: {e}")
        at_work = [threading.Thread(target=work, args=(server, a.worker, j, a.lease)) for j in jobs]
        for t in at_work:
            t.start()
        for t in at_work:
            t.join()


if __name__ == "__main__":
    main()
