// Parsers of option values from the command line, environment variables and files. They return the
// value, or the problem with the text, and do not throw.
#pragma once

#include "launcher/cli/launch_options.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

/// Reason why a text is invalid, such as "is not an integer from 0 to 65535".
struct ValueProblem {
  std::string text;
};

template <typename T>
using Parsed = std::variant<T, ValueProblem>;

inline constexpr std::chrono::seconds kYear{365 * 24 * 3600};

Parsed<int> parse_integer(const std::string& text, int min, int max);

/// Parses seconds as a decimal number.
Parsed<std::chrono::milliseconds> parse_seconds(
    const std::string& text, std::chrono::milliseconds min = std::chrono::milliseconds(0),
    std::chrono::milliseconds max = kYear);

/// Parses "auto", "off" or seconds, at least 1.
Parsed<HangTimeout> parse_hang_timeout(const std::string& text);

/// Parses a flag in an environment variable: an integer; non-zero means true.
Parsed<bool> parse_switch(const std::string& text);

/// Returns the text if it is one of the words. The problem suggests the nearest word.
Parsed<std::string> parse_word(const std::string& text, const std::vector<std::string>& words);

/// Returns the value of the word, or a problem for an unknown word.
template <typename T>
Parsed<T> parse_choice(const std::string& text,
                       std::initializer_list<std::pair<const char*, T>> choices) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) {
    if (text == word) return value;
    words.emplace_back(word);
  }
  return std::get<ValueProblem>(parse_word(text, words));
}

/// Parses "static", "c10d", "etcd" or "etcd-v2".
Parsed<RendezvousBackend> parse_rendezvous_backend(const std::string& text);
/// Like parse_rendezvous_backend(), but returns the default for text reported elsewhere.
RendezvousBackend rendezvous_backend_or_default(const std::string& text);

/// Parses "N" or "MIN:MAX".
Parsed<NodeRange> parse_node_range(const std::string& text);

/// Parses "N", "auto", "cpu" or "gpu".
Parsed<WorkerCount> parse_worker_count(const std::string& text);

/// Parses a word such as "cores", or lists of CPUs by local rank such as "0-7;8-15".
Parsed<Affinity> parse_affinity(const std::string& text);

/// Parses "0" to "3", or a map from local ranks to such numbers: "0:3,12:1".
Parsed<StreamChoice> parse_stream_choice(const std::string& text);

/// Parses "0,3,12". Returns no ranks for empty text.
Parsed<std::vector<int>> parse_local_ranks(const std::string& text);
Parsed<std::vector<int>> parse_ranks(const std::string& text);

/// Maximum number of modules to preload; their names are in one message to the interpreter.
inline constexpr std::size_t kModulesMax = 256;

/// Parses "auto" or names of Python modules: "torch,torch.distributed".
Parsed<std::vector<std::string>> parse_modules(const std::string& text);

/// Maximum number of texts of a filter, since each line is searched for all of them.
inline constexpr std::size_t kFiltersMax = 64;

/// Parses "text,text"; two commas stand for a comma within a text.
Parsed<std::vector<std::string>> parse_filters(const std::string& text);

/// Parses a rank or "none".
Parsed<StdinChoice> parse_stdin_worker(const std::string& text);

/// Parses text with fields like ${rank}. "none" and empty text mean no prefix.
Parsed<PrefixTemplate> parse_prefix_template(const std::string& text, UnknownFields unknown);

/// Parses "SIGTERM,INT". Accepts signals that can be handled and that ddprun does not use.
Parsed<std::vector<int>> parse_signals(const std::string& text);

/// Parses "host", "host:port", "[v6]:port" or a bare IPv6 address.
Parsed<RendezvousEndpoint> parse_endpoint(const std::string& text);

/// Parses endpoints separated by commas.
Parsed<RendezvousEndpoint> parse_endpoints(const std::string& text);

/// Parses "key=value,key=value". Removes quotes around the whole text, which scripts often leave.
Parsed<std::map<std::string, std::string>> parse_key_values(const std::string& text);

}  // namespace ddprun
