// Samples the TCP connections of an attempt's workers to other nodes and reports slow links. Runs
// on the agent's thread; the samples are taken on another one.
#pragma once

#include "launcher/agent/slow_links.hpp"
#include "launcher/process/background_search.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/worker_group.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace ddprun {

class LinkWatch {
 public:
  /// Starts to watch. `peers`: names of the other nodes by numeric address; connections to other
  /// addresses are ignored. `group` outlives this object. `on_slow_link` receives a link that has
  /// become slow or has recovered.
  LinkWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
            const std::map<std::string, std::string>& peers,
            std::function<void(const SlowLink&)> on_slow_link);

 private:
  struct Sampler;

  void start_timer();
  void sample();
  void take_sample();

  boost::asio::any_io_executor executor_;
  WorkerGroup& group_;
  std::function<void(const SlowLink&)> on_slow_link_;
  SlowLinkDetector detector_;
  std::shared_ptr<Sampler> sampler_;          ///< shared with the search
  std::unique_ptr<BackgroundSearch> search_;  ///< null unless a sample is being taken
  LimitTimer timer_;
};

}  // namespace ddprun
