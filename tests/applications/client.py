#!/usr/bin/env python3
# client.py KEY STEPS: adds 1 to a counter, STEPS times, under dblock's lock KEY.
# Exits 75: never granted; 76: lost.
import os, random, secrets, socket, sys, threading, time
import pymysql

TTL, PATIENCE = int(os.environ["LOCK_TTL_MS"]), int(os.environ["LOCK_PATIENCE_MS"])

def clock():  # milliseconds; cannot be set, and goes on while the machine sleeps
    return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000

# TLS where the server has it; ssl={"ca": FILE} also checks which server answers
def connect(timeout):
    return pymysql.connect(host=os.environ["DB_HOST"], port=int(os.environ["DB_PORT"]),
        user=os.environ["DB_USER"], password=os.environ["DB_PASSWORD"],
        database=os.environ["DB_NAME"], ssl={"check_hostname": False},
        autocommit=True, connect_timeout=timeout, read_timeout=timeout, write_timeout=timeout)

class Lease(threading.Thread):
    def __init__(self, key):
        super().__init__()
        # The owner id is new for each lease.
        self.key, self.owner = key, f"app@{socket.gethostname()}:python-{secrets.token_hex(16)}"
        self.token, self.deadline, self.connection, self.done = None, 0, None, threading.Event()

    def call(self, statement, wanted, give_up):
        while True:
            sent = clock()
            try:
                self.connection = self.connection or connect(timeout=TTL / 3000)
                with self.connection.cursor() as cursor:
                    # The place in line lasts for what is left of the patience.
                    patience = max(0, min(give_up - sent, 3600000))
                    cursor.execute(statement, {"key": self.key, "owner": self.owner, "ttl": TTL,
                                               "patience": patience})
                    outcome, token, remaining_ms, holder = cursor.fetchone()
                if outcome in ("granted", "renewed"):
                    self.token, self.deadline = token, sent + remaining_ms
                if outcome in wanted:
                    return outcome
            # done or not, nobody knows: the same call again will tell
            except pymysql.Error as error:
                print(error, file=sys.stderr)
                self.connection = None
            if clock() >= give_up:
                return None
            time.sleep(random.uniform(0.1, 0.3))

    # beside the work: renews when a third of the TTL has passed; releases when the work has ended
    def run(self):
        while not self.done.wait((self.deadline - TTL * 2 / 3 - clock()) / 1000):
            if clock() >= self.deadline:
                break
            if self.call("CALL dblock_renew(%(key)s, %(owner)s, NULL)", ("renewed", "lost"),
                         self.deadline) == "lost":
                self.deadline = 0
        self.done.wait()
        self.call("CALL dblock_release(%(key)s, %(owner)s)", ("released", "lost"), self.deadline)

lease, connection = Lease(sys.argv[1]), connect(timeout=10)  # all is ready before the lease begins
acquire = "CALL dblock_acquire(%(key)s, %(owner)s, %(ttl)s, NULL, %(patience)s, NULL)"
if not lease.call(acquire, ("granted",), clock() + PATIENCE):
    sys.exit(75)
lease.start()
try:
    work = connection.cursor()
    for _ in range(int(sys.argv[2])):
        if clock() >= lease.deadline:
            sys.exit(76)
        work.execute("START TRANSACTION")
        work.execute("CALL dblock_assert_held(%s, %s)", (lease.key, lease.token))
        work.execute("SELECT n FROM counter")
        n = work.fetchone()[0]
        time.sleep(0.005)
        work.execute("UPDATE counter SET n = %s", n + 1)
        work.execute("COMMIT")
except pymysql.OperationalError as error:
    sys.exit(76 if error.args[0] == 1644 else str(error))  # 1644 is SQLSTATE 45000: not held
finally:
    lease.done.set()
    lease.join()
