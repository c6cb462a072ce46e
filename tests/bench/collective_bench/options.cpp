#include "tests/bench/collective_bench/options.hpp"

#include "tests/bench/collective_bench/cases.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace ddprun::bench {

namespace {

// More sizes than useful; a step of one byte would request millions.
constexpr std::size_t kSizesMax = 1000;
// More than any machine has, and with a unit of 2^40 still below 2^63.
constexpr std::size_t kBytesMax = std::size_t{1} << 62;
constexpr std::size_t kSizeDigitsMax = 18;

constexpr char kColumns[] =
    "Columns: size in bytes of the larger buffer of a rank, rounded down to what ranks can share, "
    "and\n"
    "count, the elements of a rank's part; time of a call, the mean over the ranks and the median "
    "of\n"
    "the rounds; algbw, size / time, and busbw, what that means for the slowest link (GB are 10^9\n"
    "bytes); #wrong elements of the results of all ranks (with -c 0: N/A); p99, the time that one "
    "of\n"
    "100 calls exceeds (--latencies); probe, how near an all_reduce comes to what reading and "
    "writing\n"
    "as much memory takes at least; vs first, its time as a multiple of the first backend's.\n"
    "It ends with 1 if a result was wrong.";

const std::map<std::string, DataType> kTypes = {
    {"float", DataType::float32},     {"double", DataType::float64}, {"half", DataType::float16},
    {"bfloat16", DataType::bfloat16}, {"int32", DataType::int32},    {"int64", DataType::int64},
    {"uint8", DataType::uint8}};

const std::map<std::string, ReduceOp> kOps = {{"sum", ReduceOp::sum},
                                              {"avg", ReduceOp::average},
                                              {"prod", ReduceOp::product},
                                              {"min", ReduceOp::min},
                                              {"max", ReduceOp::max}};

/// 4, 64K, 32M: bytes, or units of 1024 bytes, like nccl-tests.
const CLI::Validator kSize(
    [](std::string& text) -> std::string {
      constexpr std::string_view kUnits = "KMGT";
      const std::size_t digits = text.find_first_not_of("0123456789");
      const auto unit = digits == text.npos ? kUnits.npos : kUnits.find(text[digits]);
      const bool is_size =
          digits != 0 && !text.empty() && text.size() <= kSizeDigitsMax &&
          (digits == text.npos || (unit != kUnits.npos && digits + 1 == text.size()));
      if (!is_size) return "\"" + text + "\" is no size (such as 4, 64K, 32M, 1G)";
      const auto value = std::stoull(text.substr(0, digits));
      const auto shift = digits == text.npos ? 0 : 10 * (unit + 1);
      if (value > kBytesMax >> shift) return "\"" + text + "\" is more than any machine has";
      text = std::to_string(value << shift);
      return {};
    },
    "SIZE");

template <typename Map>
std::vector<std::string> names_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

template <typename Map, typename Value>
std::string name_in(const Map& names, Value value) {
  for (const auto& [name, one] : names) {
    if (one == value) return name;
  }
  return "?";
}

void add_sizes(CLI::App& app, Options& options) {
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size (4, 64K, 32M)")
      ->transform(kSize)
      ->default_str("32M");
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size")
      ->transform(kSize)
      ->default_str("32M");
  app.add_option("-i,--stepbytes", options.step_bytes, "from one size to the next")
      ->transform(kSize)
      ->default_str("1M");
  app.add_option("-f,--stepfactor", options.step_factor,
                 "from one size to the next, in place of -i")
      ->check(CLI::Range(2, 1024));
}

void add_counts(CLI::App& app, Options& options) {
  app.add_option("-n,--iters", options.iterations, "calls of a measurement")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("-w,--warmup_iters", options.warmup_iterations, "calls before it")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--rounds", options.rounds,
                 "measurements of each, whose median is shown; backends take turns in each round")
      ->check(CLI::Range(1, 1000));
}

void refuse(const std::string& option, const std::string& problem) {
  throw CLI::ValidationError(option, problem);
}

/// Invalid combinations of valid values.
void check(const Options& options) {
  const std::size_t element = size_of(options.type);
  const auto bytes = [](std::size_t value) { return std::to_string(value); };
  if (options.min_bytes > options.max_bytes) {
    refuse("--minbytes", bytes(options.min_bytes) + " is more than --maxbytes, which is " +
                             bytes(options.max_bytes));
  }
  for (const auto& [name, value] :
       {std::pair("--minbytes", options.min_bytes), std::pair("--stepbytes", options.step_bytes)}) {
    const bool counts = name[2] == 'm' || options.step_factor == 0;
    if (counts && value % element != 0) {
      refuse(name, bytes(value) + " is no multiple of the " + bytes(element) + " bytes of a " +
                       type_name(options.type));
    }
  }
  if (options.step_bytes == 0 && options.step_factor == 0) refuse("--stepbytes", "0 leads nowhere");
  if (sizes_of(options).size() > kSizesMax)
    refuse("--stepbytes", "more than " + bytes(kSizesMax) + " sizes");
  for (std::size_t i = 0; i < options.backends.size(); ++i) {
    const auto& name = options.backends[i];
    if (name.empty()) refuse("--vs", "a backend has no name");
    if (std::count(options.backends.begin(), options.backends.end(), name) > 1)
      refuse("--vs", name + " is named twice");
  }
}

/// The parser takes the argument after "--csv=" for its value.
void check_that_values_are_there(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.ends_with("="))
      refuse(std::string(word.substr(0, word.size() - 1)), "there is no value behind the =");
  }
}

}  // namespace

std::variant<Options, int> parse(int argc, char** argv) {
  Options options;
  CLI::App app{"Times collectives, with the options and columns of nccl-tests"};
  app.option_defaults()->always_capture_default();
  app.footer(kColumns);
  std::string op = op_name(options.op);
  std::string type = type_name(options.type);
  std::string backends = options.backends.front();
  app.add_option("collective", options.collectives, "what to time")
      ->check(CLI::IsMember(case_names()));
  add_sizes(app, options);
  add_counts(app, options);
  app.add_option("-c,--check", options.check, "compare results with what they should be")
      ->check(CLI::Range(0, 1));
  app.add_option("-o,--op", op, "how elements are combined")->check(CLI::IsMember(names_of(kOps)));
  app.add_option("-d,--datatype", type, "of the elements")->check(CLI::IsMember(names_of(kTypes)));
  app.add_option("-r,--root", options.root, "of collectives that have one")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app.add_option("--vs", backends, "backends, separated by commas");
  app.add_flag("--latencies", options.latencies,
               "time each call alone, on rank 0, and show the slowest of 100 as well");
  app.add_flag("--own_memory", options.own_memory,
               "buffers from the heap, not from the group's own memory");
  app.add_flag("--rewrite", options.rewrite,
               "write the input before each call, as a backward pass does, and await a barrier of "
               "the first backend; neither is part of the time");
  app.add_option("--csv", options.csv, "file for the figures");
  app.add_option("--json", options.json, "file for the figures");
  try {
    check_that_values_are_there(argc, argv);
    app.parse(argc, argv);
    options.op = kOps.at(op);
    options.type = kTypes.at(type);
    options.backends = CLI::detail::split(backends, ',');
    check(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return options;
}

std::vector<std::size_t> sizes_of(const Options& options) {
  std::vector<std::size_t> sizes;
  const std::size_t step = std::max<std::size_t>(options.step_bytes, 1);
  for (std::size_t size = options.min_bytes;
       size <= options.max_bytes && sizes.size() <= kSizesMax;) {
    sizes.push_back(size);
    size = options.step_factor > 1
               ? std::max<std::size_t>(size, 1) * static_cast<std::size_t>(options.step_factor)
               : size + step;
  }
  return sizes;
}

std::string type_name(DataType type) {
  return name_in(kTypes, type);
}

std::string op_name(ReduceOp op) {
  return name_in(kOps, op);
}

}  // namespace ddprun::bench
