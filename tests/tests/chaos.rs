//! Whatever fails, every request is answered, nobody unknown comes in, nothing is admitted that may not be, and all is well soon
//! after. A longer look at the same: `make chaos`.

use std::time::Duration;

use tests::chaos::{Topology, run};

const LENGTH: Duration = Duration::from_secs(20);

async fn is_borne(topology: Topology) {
    let account = run(topology, LENGTH).await;
    println!("{account}");
    assert_eq!(account.wrong(), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_redis_may_fail_in_any_way() {
    is_borne(Topology::Primary).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_under_sentinels_may_fail_in_any_way() {
    is_borne(Topology::Sentinel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_may_fail_in_any_way() {
    is_borne(Topology::Cluster).await;
}
