// Runs a function as several ranks, each a forked process, and collects their results. Must be
// created before the test has threads that a child would need.
#pragma once

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ddprun::test {

/// Exit of a rank, and the text that it wrote to its pipe.
struct RankEnd {
  int status = 0;  ///< from waitpid
  std::string output;

  bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
  bool was_killed_by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
};

/// The processes of a test. The destructor kills those that are left.
class RankProcesses {
 public:
  /// The function of a rank; its result is written to the pipe. An exception's text is written,
  /// too, with exit code 1.
  using Body = std::function<std::string(int rank)>;

  RankProcesses(int ranks, const Body& body) {
    for (int rank = 0; rank < ranks; ++rank) start(rank, body);
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() {
    for (auto& rank : ranks_) {
      if (!rank.is_reaped) ::kill(rank.pid, SIGKILL);
      if (!rank.is_reaped) ::waitpid(rank.pid, nullptr, 0);
      ::close(rank.pipe);
    }
  }

  void kill(int rank, int signal) { ::kill(ranks_[rank].pid, signal); }
  pid_t pid(int rank) const { return ranks_[rank].pid; }

  /// Blocks until the rank has exited; the time limit of the test applies.
  RankEnd wait(int rank) {
    Rank& one = ranks_[rank];
    RankEnd end;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(one.pipe, buffer, sizeof buffer)) > 0;)
      end.output.append(buffer, static_cast<std::size_t>(got));
    ::waitpid(one.pid, &end.status, 0);
    one.is_reaped = true;
    return end;
  }

 private:
  struct Rank {
    pid_t pid;
    int pipe;
    bool is_reaped = false;
  };

  void start(int rank, const Body& body) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const auto& other : ranks_) ::close(other.pipe);
      ::_exit(run(rank, body, ends[1]));
    }
    ::close(ends[1]);
    ranks_.push_back({pid, ends[0]});
  }

  static int run(int rank, const Body& body, int pipe) {
    std::string text;
    int code = 0;
    try {
      text = body(rank);
    } catch (const std::exception& error) {
      text = error.what();
      code = 1;
    }
    return ::write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? code : 9;
  }

  std::vector<Rank> ranks_;
};

}  // namespace ddprun::test
