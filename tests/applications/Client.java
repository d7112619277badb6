// Client KEY STEPS: adds 1 to a counter, STEPS times, under dblock's lock KEY.
// Exits 75: never granted; 76: lost.
import java.math.BigInteger;
import java.net.InetAddress;
import java.security.SecureRandom;
import java.sql.*;
import java.util.concurrent.*;

public class Client extends Thread {
  static final long TTL = Long.parseLong(System.getenv("LOCK_TTL_MS"));
  static final long PATIENCE = Long.parseLong(System.getenv("LOCK_PATIENCE_MS"));
  final CountDownLatch done = new CountDownLatch(1);
  final String key, owner;
  volatile long token, deadline;
  Connection connection;

  Client(String key) throws Exception {
    // Each lease has a new owner id.
    String random = String.format("%032x", new BigInteger(128, new SecureRandom()));
    this.key = key;
    this.owner = "app@" + InetAddress.getLocalHost().getHostName() + ":java-" + random;
  }

  // cannot be set; stands still while the machine sleeps, and then the fence alone protects
  static long clock() {
    return System.nanoTime() / 1_000_000;
  }

  // over a network: useSsl=true&serverSslCert=FILE
  static Connection connect(long timeout) throws SQLException {
    String url = String.format(
        "jdbc:mariadb://%s:%s/%s?allowPublicKeyRetrieval=true&connectTimeout=%d&socketTimeout=%4$d",
        System.getenv("DB_HOST"), System.getenv("DB_PORT"), System.getenv("DB_NAME"), timeout);
    return DriverManager.getConnection(url, System.getenv("DB_USER"), System.getenv("DB_PASSWORD"));
  }

  static ResultSet query(Connection connection, String sql, Object... values) throws SQLException {
    PreparedStatement statement = connection.prepareStatement(sql);
    for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
    ResultSet rows = statement.executeQuery();
    rows.next();
    return rows;
  }

  String call(String sql, String wanted, long giveUp) throws InterruptedException {
    while (true) {
      // The place in line lasts for what is left of the patience.
      long sent = clock(), left = Math.max(0, Math.min(giveUp - sent, 3_600_000));
      try {
        if (connection == null) connection = connect(TTL / 3);
        ResultSet row = query(connection, sql.replace("PATIENCE", "" + left), key, owner);
        String outcome = row.getString("outcome");
        if (outcome.matches("granted|renewed")) {
          token = row.getLong("token");
          deadline = sent + row.getLong("remaining_ms");
        }
        if (outcome.matches(wanted)) return outcome;
      } catch (SQLException error) { // done or not, nobody knows: the same call again will tell
        System.err.println(error.getMessage());
        connection = null;
      }
      if (clock() >= giveUp) return "unknown";
      sleep(ThreadLocalRandom.current().nextLong(100, 300));
    }
  }

  // beside the work: renews when a third of the TTL has passed; releases in the end
  @Override public void run() {
    try {
      while (!done.await(deadline - clock() - TTL * 2 / 3, TimeUnit.MILLISECONDS)
          && clock() < deadline)
        if (call("CALL dblock_renew(?, ?, NULL)", "renewed|lost", deadline).equals("lost"))
          deadline = 0;
      done.await();
      call("CALL dblock_release(?, ?)", "released|lost", deadline);
    } catch (InterruptedException error) { // no more renewals: the deadline will pass
    }
  }

  int work(Connection work, int steps) throws Exception {
    try {
      work.setAutoCommit(false);
      for (int step = 0; step < steps; step++) {
        if (clock() >= deadline) return 76;
        query(work, "CALL dblock_assert_held(?, ?)", key, token);
        long n = query(work, "SELECT n FROM counter").getLong("n");
        sleep(5);
        work.createStatement().executeUpdate("UPDATE counter SET n = " + (n + 1));
        work.commit();
      }
      return 0;
    } catch (SQLException error) {
      if ("45000".equals(error.getSQLState())) return 76; // not held
      throw error;
    }
  }

  public static void main(String[] arguments) throws Exception {
    Connection work = connect(10_000); // all is ready before the lease begins
    Client lease = new Client(arguments[0]);
    String acquire = "CALL dblock_acquire(?, ?, " + TTL + ", NULL, PATIENCE, NULL)";
    if (!lease.call(acquire, "granted", clock() + PATIENCE).equals("granted")) System.exit(75);
    lease.start();
    int code = 1;
    try {
      code = lease.work(work, Integer.parseInt(arguments[1]));
    } finally {
      lease.done.countDown();
      lease.join();
    }
    System.exit(code);
  }
}
