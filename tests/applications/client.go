// client KEY STEPS: adds 1 to a counter, STEPS times, under dblock's lock KEY.
// Exits 75: never granted; 76: lost.
package main

import (
	crypto "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

type lease struct {
	key, owner      string
	db              *sql.DB
	token, deadline atomic.Int64
}

var started = time.Now()

// cannot be set; stands still while the machine sleeps, and then the fence alone protects
func clock() int64 {
	return time.Since(started).Milliseconds()
}

// TLS where the server has it; tls=true also checks which server answers
func connect(timeout int64) *sql.DB {
	options := fmt.Sprintf("tls=preferred&timeout=%dms&readTimeout=%[1]dms&writeTimeout=%[1]dms",
		timeout)
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s:%s)/%s?%s",
		os.Getenv("DB_USER"), os.Getenv("DB_PASSWORD"),
		os.Getenv("DB_HOST"), os.Getenv("DB_PORT"), os.Getenv("DB_NAME"), options))
	if err == nil {
		err = db.Ping()
	}
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func (l *lease) call(query, wanted string, giveUp int64) string {
	for {
		sent, outcome := clock(), "unknown"
		left := math.Max(0, math.Min(float64(giveUp-sent), 3600000)) // so long the place in line lasts
		query := strings.Replace(query, "PATIENCE", fmt.Sprintf("%.0f", left), 1)
		var token, remaining sql.NullInt64
		var holder sql.NullString
		err := l.db.QueryRow(query, l.key, l.owner).Scan(&outcome, &token, &remaining, &holder)
		if err != nil { // done or not, nobody knows: the same call again will tell
			log.Print(err)
		} else if outcome == "granted" || outcome == "renewed" {
			l.token.Store(token.Int64)
			l.deadline.Store(sent + remaining.Int64)
		}
		if strings.Contains(wanted, outcome) {
			return outcome
		}
		if clock() >= giveUp {
			return "unknown"
		}
		time.Sleep(time.Duration(100+rand.Intn(200)) * time.Millisecond)
	}
}

// a transaction, which the server refuses unless the lease is held
func (l *lease) step(db *sql.DB) error {
	work, err := db.Begin()
	if err != nil {
		return err
	}
	defer work.Rollback()
	if _, err := work.Exec("CALL dblock_assert_held(?, ?)", l.key, l.token.Load()); err != nil {
		return err
	}
	var n int64
	if err := work.QueryRow("SELECT n FROM counter").Scan(&n); err != nil {
		return err
	}
	time.Sleep(5 * time.Millisecond)
	if _, err := work.Exec("UPDATE counter SET n = ?", n+1); err != nil {
		return err
	}
	return work.Commit()
}

func (l *lease) work(db *sql.DB, steps int) int {
	for ; steps > 0; steps-- {
		if clock() >= l.deadline.Load() {
			return 76
		}
		var refusal *mysql.MySQLError
		// SQLSTATE 45000: not held
		if err := l.step(db); errors.As(err, &refusal) && refusal.Number == 1644 {
			return 76
		} else if err != nil {
			log.Print(err)
			return 1
		}
	}
	return 0
}

func main() {
	random, ended := make([]byte, 16), make(chan int)
	if _, err := crypto.Read(random); err != nil {
		log.Fatal(err)
	}
	rand.Seed(time.Now().UnixNano())
	host, _ := os.Hostname()
	ttl, _ := strconv.ParseInt(os.Getenv("LOCK_TTL_MS"), 10, 64)
	patience, _ := strconv.ParseInt(os.Getenv("LOCK_PATIENCE_MS"), 10, 64)
	steps, _ := strconv.Atoi(os.Args[2])
	// All is ready before the lease begins, and each lease has a new owner id.
	db, owner := connect(10000), fmt.Sprintf("app@%s:go-%x", host, random)
	l := &lease{key: os.Args[1], owner: owner, db: connect(ttl / 3)}
	acquire := fmt.Sprintf("CALL dblock_acquire(?, ?, %d, NULL, PATIENCE, NULL)", ttl)
	if l.call(acquire, "granted", clock()+patience) != "granted" {
		os.Exit(75)
	}
	go func() { ended <- l.work(db, steps) }()
	code := -1
	for code < 0 && clock() < l.deadline.Load() {
		select {
		case code = <-ended:
		// a third has passed
		case <-time.After(time.Duration(l.deadline.Load()-ttl*2/3-clock()) * time.Millisecond):
			if l.call("CALL dblock_renew(?, ?, NULL)", "renewed lost", l.deadline.Load()) == "lost" {
				l.deadline.Store(0)
			}
		}
	}
	if code < 0 {
		code = <-ended
	}
	l.call("CALL dblock_release(?, ?)", "released lost", l.deadline.Load())
	os.Exit(code)
}
