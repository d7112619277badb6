#!/usr/bin/env node
// client.js KEY STEPS: adds 1 to a counter, STEPS times, under dblock's lock KEY.
// Exits 75: never granted; 76: lost.
const mysql = require("mysql2");
const { randomBytes } = require("crypto");
const { hostname } = require("os");
const { promisify } = require("util");
const { setTimeout: sleep } = require("timers/promises");

const key = process.argv[2], steps = Number(process.argv[3]);
const TTL = Number(process.env.LOCK_TTL_MS), PATIENCE = Number(process.env.LOCK_PATIENCE_MS);

// cannot be set; stands still while the machine sleeps, and then the fence alone protects
function clock() {
  return Number(process.hrtime.bigint() / 1000000n);
}

class Session { // one connection, not a pool, whose next statement could go to another connection
  // over a network: ssl: {ca: CERTIFICATE} encrypts, and checks which server answers
  constructor(timeout) {
    this.timeout = timeout;
    this.connection = mysql.createConnection({
      host: process.env.DB_HOST, port: Number(process.env.DB_PORT),
      database: process.env.DB_NAME, charset: "utf8mb4",
      user: process.env.DB_USER, password: process.env.DB_PASSWORD,
      connectTimeout: timeout, supportBigNumbers: true,
    });
    // when it is lost between two statements, the next one fails
    this.connection.on("error", () => {});
  }

  query(sql, ...values) {
    const { connection, timeout } = this;
    return promisify(connection.query).call(connection, { sql, values, timeout });
  }
}

class Lease {
  owner = `app@${hostname()}:node-${randomBytes(16).toString("hex")}`; // a new one for each lease
  token = null;
  deadline = 0;
  ended = new AbortController();

  async call(sql, values, wanted, giveUp) {
    for (;;) {
      // The place in line lasts for what is left of the patience.
      const sent = clock(), left = Math.max(0, Math.min(giveUp - sent, 3600000));
      try {
        this.session ??= new Session(TTL / 3);
        const statement = sql.replace("PATIENCE", left);
        const results = await this.session.query(statement, key, this.owner, ...values);
        const { outcome, token, remaining_ms } = results[0][0]; // the row of the first result
        if (["granted", "renewed"].includes(outcome))
          [this.token, this.deadline] = [token, sent + remaining_ms];
        if (wanted.includes(outcome)) return outcome;
      } catch (error) { // done or not, nobody knows: the same call again will tell
        console.error(error.message);
        this.session.connection.destroy();
        this.session = null;
      }
      if (clock() >= giveUp) return "unknown";
      await sleep(100 + 200 * Math.random());
    }
  }

  // beside the work: renews when a third of the TTL has passed; releases when the work has ended
  async keep() {
    while (!this.ended.signal.aborted && clock() < this.deadline) {
      const pause = this.deadline - TTL * 2 / 3 - clock();
      await sleep(pause, null, { signal: this.ended.signal }).catch(() => {});
      if (!this.ended.signal.aborted
          && await this.call("CALL dblock_renew(?, ?, NULL)", [], ["renewed", "lost"],
                             this.deadline) === "lost")
        this.deadline = 0;
    }
    if (this.ended.signal.aborted)
      await this.call("CALL dblock_release(?, ?)", [], ["released", "lost"], this.deadline);
  }
}

async function work(session, lease) {
  try {
    for (let step = 0; step < steps; step++) {
      if (clock() >= lease.deadline) return 76;
      await session.query("START TRANSACTION");
      await session.query("CALL dblock_assert_held(?, ?)", key, lease.token);
      const [{ n }] = await session.query("SELECT n FROM counter");
      await sleep(5);
      await session.query("UPDATE counter SET n = ?", n + 1);
      await session.query("COMMIT");
    }
    return 0;
  } catch (error) {
    console.error(error.message);
    return error.sqlState === "45000" ? 76 : 1; // 45000: not held
  }
}

async function main() {
  const session = new Session(10000), lease = new Lease();
  await session.query("DO 0"); // all is ready before the lease begins
  const acquire = "CALL dblock_acquire(?, ?, ?, NULL, PATIENCE, NULL)";
  if (await lease.call(acquire, [TTL], ["granted"], clock() + PATIENCE) !== "granted") return 75;
  const kept = lease.keep();
  const code = await work(session, lease);
  lease.ended.abort();
  await kept;
  return code;
}

main().then((code) => process.exit(code));
