#!/usr/bin/env php
<?php
// client.php KEY STEPS: adds 1 to a counter, STEPS times, under dblock's lock KEY.
// Exits 75: never granted; 76: lost.

// cannot be set; stands still while the machine sleeps, and then the fence alone protects
function clock(): int {
    return intdiv(hrtime(true), 1000000);
}

// over a network: ssl_set() and MYSQLI_CLIENT_SSL check which server answers
function connect(int $timeout): mysqli {
    $connection = mysqli_init();
    $connection->options(MYSQLI_OPT_CONNECT_TIMEOUT, $timeout); // whole seconds
    $connection->options(MYSQLI_OPT_READ_TIMEOUT, $timeout);
    $connection->real_connect(getenv('DB_HOST'), getenv('DB_USER'), getenv('DB_PASSWORD'),
        getenv('DB_NAME'), (int) getenv('DB_PORT'));
    $connection->set_charset('utf8mb4');
    return $connection;
}

function query(mysqli $connection, string $sql, array $values = []): array {
    $statement = $connection->prepare($sql);
    $statement->execute($values);
    return $statement->get_result()->fetch_assoc();
}

final class Lease {
    public ?int $token = null;
    public int $deadline = 0;
    private string $owner;
    private ?mysqli $connection = null;

    public function __construct(public readonly string $key, private int $ttl) {
        // Each lease has a new owner id.
        $this->owner = 'app@' . gethostname() . ':php-' . bin2hex(random_bytes(16));
    }

    private function call(string $sql, array $wanted, int $giveUp): string {
        while (true) {
            $sent = clock();
            $left = max(0, min($giveUp - $sent, 3600000)); // so long the place in line lasts
            try {
                $this->connection ??= connect((int) ceil($this->ttl / 3000));
                $statement = str_replace('PATIENCE', $left, $sql);
                $row = query($this->connection, $statement, [$this->key, $this->owner]);
                if (in_array($row['outcome'], ['granted', 'renewed'])) {
                    [$this->token, $this->deadline] = [$row['token'], $sent + $row['remaining_ms']];
                }
                if (in_array($row['outcome'], $wanted)) {
                    return $row['outcome'];
                }
            // done or not, nobody knows: the same call again will tell
            } catch (mysqli_sql_exception $error) {
                error_log($error->getMessage());
                $this->connection = null;
            }
            if (clock() >= $giveUp) {
                return 'unknown';
            }
            usleep(random_int(100000, 300000));
        }
    }

    public function acquire(int $patience): bool {
        $sql = "CALL dblock_acquire(?, ?, $this->ttl, NULL, PATIENCE, NULL)";
        return $this->call($sql, ['granted'], clock() + $patience) === 'granted';
    }

    // between two steps of the work: renews when a third of the TTL has passed
    public function keep(): bool {
        $left = $this->deadline - clock();
        if ($left > 0 && $left < $this->ttl * 2 / 3
            && $this->call('CALL dblock_renew(?, ?, NULL)', ['renewed', 'lost'],
                           $this->deadline) === 'lost') {
            $this->deadline = 0;
        }
        return clock() < $this->deadline;
    }

    public function release(): void {
        $this->call('CALL dblock_release(?, ?)', ['released', 'lost'], $this->deadline);
    }
}

// a transaction, which the server refuses unless the lease is held
function step(mysqli $work, Lease $lease): void {
    $work->begin_transaction();
    query($work, 'CALL dblock_assert_held(?, ?)', [$lease->key, $lease->token]);
    $n = query($work, 'SELECT n FROM counter')['n'];
    usleep(5000);
    $work->execute_query('UPDATE counter SET n = ?', [$n + 1]);
    $work->commit();
}

function work(mysqli $work, Lease $lease, int $steps): int {
    try {
        for (; $steps > 0; $steps--) {
            if (!$lease->keep()) {
                return 76;
            }
            step($work, $lease);
        }
        return 0;
    } catch (mysqli_sql_exception $error) {
        error_log($error->getMessage());
        return $error->getSqlState() === '45000' ? 76 : 1; // 45000: not held
    }
}

$work = connect(10); // all is ready before the lease begins
$lease = new Lease($argv[1], (int) getenv('LOCK_TTL_MS'));
if (!$lease->acquire((int) getenv('LOCK_PATIENCE_MS'))) {
    exit(75);
}
$code = work($work, $lease, (int) $argv[2]);
$lease->release();
exit($code);
