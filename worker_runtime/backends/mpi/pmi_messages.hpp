// The process manager's side of MPICH's PMI 1: lines of "name=value" words over a socket that the
// process inherits, by which its ranks tell each other where they are. The protocol is described in
// MPICH's wiki ("PMI v1 wire protocol"). Pure: what is kept and waited for is the caller's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::mpi {

/// Longer lines are an error of the client. Its values are at most kPmiValueBytesMax long.
inline constexpr std::size_t kPmiLineBytesMax = 4096;
inline constexpr int kPmiKeyBytesMax = 64;
inline constexpr int kPmiValueBytesMax = 1024;

/// What the answers are made from. `get` may wait: MPICH asks for keys of its own only after a
/// barrier that follows each rank's put.
struct PmiFunctions {
  std::function<void(const std::string& key, const std::string& value)> put;
  std::function<std::string(const std::string& key)> get;
  std::function<std::string()> mapping;  ///< process_mapping() of the ranks
  std::function<void()> barrier;         ///< returns when all ranks are in it
};

struct PmiAnswer {
  std::string line;  ///< with its end; empty: there is none
  bool is_last = false;
};

/// The answer to a line (without its end). Throws what the functions throw, and Error{protocol} for
/// a line that is none.
PmiAnswer answer_pmi(const std::string& line, const PmiFunctions& functions);

/// PMI's text for which node each rank is on: blocks of (node, 1, ranks).
std::string process_mapping(const std::vector<int>& node_of_rank);

}  // namespace ddprun::mpi
