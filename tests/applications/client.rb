#!/usr/bin/env ruby
# client.rb KEY STEPS: adds 1 to a counter, STEPS times, under dblock's lock KEY.
# Exits 75: never granted; 76: lost.
require "mysql2"
require "securerandom"
require "socket"

KEY, STEPS = ARGV[0], Integer(ARGV[1])
TTL, PATIENCE = Integer(ENV["LOCK_TTL_MS"]), Integer(ENV["LOCK_PATIENCE_MS"])

def clock # cannot be set, and goes on while the machine sleeps
  Process.clock_gettime(Process::CLOCK_BOOTTIME, :millisecond)
end

def connect(timeout) # sslca: FILE, sslverify: true also checks which server answers
  Mysql2::Client.new(host: ENV["DB_HOST"], port: Integer(ENV["DB_PORT"]), username: ENV["DB_USER"],
                     password: ENV["DB_PASSWORD"], database: ENV["DB_NAME"], encoding: "utf8mb4",
                     connect_timeout: timeout, read_timeout: timeout, write_timeout: timeout)
end

class Lease
  attr_reader :token, :deadline
  attr_writer :done

  def initialize
    @owner = "app@#{Socket.gethostname}:ruby-#{SecureRandom.hex(16)}" # a new one for each lease
    @deadline = 0
  end

  def call(procedure, wanted, give_up, more = "")
    loop do
      sent = clock
      left = (give_up - sent).clamp(0, 3_600_000) # so long the place in line lasts
      begin
        @connection ||= connect((TTL / 3000.0).ceil) # whole seconds
        key, owner = [KEY, @owner].map { |text| @connection.escape(text) }
        row = @connection.query("CALL #{procedure}('#{key}', '#{owner}'#{more % left})").first
        @connection.abandon_results!
        if %w[granted renewed].include?(row["outcome"])
          @token, @deadline = row["token"], sent + row["remaining_ms"]
        end
        return row["outcome"] if wanted.include?(row["outcome"])
      rescue Mysql2::Error => error
        warn error.message # done or not, nobody knows: the same call again will tell
        @connection = nil
      end
      return if clock >= give_up
      sleep rand(0.1..0.3)
    end
  end

  # beside the work: renews when a third of the TTL has passed; releases when the work has ended
  def keep
    until @done
      sleep 0.05
      next if clock < @deadline - TTL * 2 / 3 || clock >= @deadline
      @deadline = 0 if call("dblock_renew", %w[renewed lost], @deadline, ", NULL") == "lost"
    end
    call("dblock_release", %w[released lost], @deadline)
  end
end

work = connect(10) # all is ready before the lease begins
lease = Lease.new
exit 75 unless lease.call("dblock_acquire", %w[granted], clock + PATIENCE,
                          ", #{TTL}, NULL, %d, NULL")
keeper = Thread.new { lease.keep }
begin
  STEPS.times do
    exit 76 if clock >= lease.deadline
    work.query("START TRANSACTION")
    work.query("CALL dblock_assert_held('#{work.escape(KEY)}', #{lease.token})")
    work.abandon_results!
    n = work.query("SELECT n FROM counter").first["n"]
    sleep 0.005
    work.query("UPDATE counter SET n = #{n + 1}")
    work.query("COMMIT")
  end
rescue Mysql2::Error => error
  raise unless error.sql_state == "45000" # not held
  exit 76
ensure
  lease.done = true
  keeper.join
end
