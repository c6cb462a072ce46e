// The queue of the log file thread, with a pipe as a blocked file.
#include "launcher/output/log_writer.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace log_writer_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// Accepts a page of output, and blocks until the reader is closed.
struct HungFile {
  HungFile() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    reader = UniqueFd(ends[0]);
    file->name = "hung";
    file->fd = UniqueFd(ends[1]);
    REQUIRE(::fcntl(ends[1], F_SETPIPE_SZ, 4096) > 0);
  }
  std::shared_ptr<LogWriter::File> file = std::make_shared<LogWriter::File>();
  /// Accepts this number of further bytes, which must have been written.
  void take(std::size_t bytes) const {
    std::array<char, 4096> part{};
    while (bytes > 0) {
      const auto count = ::read(reader.get(), part.data(), std::min(part.size(), bytes));
      REQUIRE(count > 0);
      bytes -= static_cast<std::size_t>(count);
    }
  }

  UniqueFd reader;
};

/// Bytes allocated by this process. Sanitizers do not report them.
std::size_t allocated_bytes() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace

TEST_SUITE("log writer") {
  TEST_CASE("log writer: the limit counts the memory that small pieces occupy") {
    boost::asio::io_context io;
    HungFile hung;
    const auto writer = std::make_shared<LogWriter>(io.get_executor(), Log());
    const std::string piece(128, 'x');
    std::size_t bytes = 0;
    while (!writer->is_full() && writer->write(hung.file, piece)) bytes += piece.size();
    CHECK(writer->is_full());
    CHECK(bytes < kLogBytesMax / 4 * 3);
    hung.reader = UniqueFd();
    writer->stop();
  }

  TEST_CASE("log writer: small pieces after large ones stay within the memory limit") {
    boost::asio::io_context io;
    HungFile hung;
    const auto writer = std::make_shared<LogWriter>(io.get_executor(), Log());
    const std::string large(std::size_t{64} << 10, 'x'), small(128, 'x');
    const auto before = allocated_bytes();
    std::size_t pieces = 0;
    const auto fill = [&] {
      for (; !writer->is_full() && writer->write(hung.file, large); ++pieces) continue;
    };
    fill();
    // One for each piece written.
    for (std::size_t i = 0, count = pieces - 1; i < count; ++i) {
      hung.take(large.size());
      CHECK(writer->write(hung.file, small));
    }
    fill();
    CHECK(writer->is_full());
    CHECK(allocated_bytes() < before + kLogBytesMax / 2 * 3);
    hung.reader = UniqueFd();
    writer->stop();
  }

  TEST_CASE("log writer: workers do not wait for a file system that hangs while files are closed") {
    boost::asio::io_context io;
    HungFile hung;
    const auto writer = std::make_shared<LogWriter>(io.get_executor(), Log(), 1s);
    const std::string large(std::size_t{64} << 10, 'x');
    for (std::size_t bytes = 2 * large.size(); bytes < kLogBytesMax; bytes += large.size())
      CHECK(writer->write(hung.file, large));
    CHECK_FALSE(writer->is_full());
    while (!writer->is_full()) writer->close(std::make_shared<LogWriter::File>(), 0);
    io.run();
    CHECK_FALSE(writer->is_full());
    hung.reader = UniqueFd();
    // stop() does not wait for a thread that has not progressed for this time.
    while (hung.file.use_count() > 1) std::this_thread::yield();
    writer->stop();
  }

  TEST_CASE("log writer: lost output is logged while the writer is in use") {
    boost::asio::io_context io;
    HungFile hung;
    std::vector<std::string> logged;
    std::shared_ptr<LogWriter> writer;
    const Log log = [&](LogLevel, std::string_view text) {
      logged.emplace_back(text);
      writer->close(std::make_shared<LogWriter::File>(), 0);
    };
    // Also the time limit of stop() for the thread, which must have ended.
    writer = std::make_shared<LogWriter>(io.get_executor(), log, 1s);
    CHECK(writer->write(hung.file, std::string(10'000, 'x')));
    const auto drained = boost::asio::co_spawn(io, writer->drain(), boost::asio::use_future);
    io.run();
    CHECK(logged == std::vector<std::string>{"hung: its file system takes no output; 10000 bytes "
                                             "of output are missing from log files"});
    hung.reader = UniqueFd();
    // stop() does not wait for a thread that has not progressed for this time.
    while (hung.file.use_count() > 1) std::this_thread::yield();
    writer->stop();
    writer.reset();
  }
}

}  // namespace log_writer_test
