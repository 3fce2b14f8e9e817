//! The private network: one namespace per node, node 1 in the middle, no way out.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use nix::sched::{CloneFlags, setns};

use crate::addresses::{link_to, namespace, node_address, pod_range};
use crate::run;

/// The device that holds node 1's address. A bridge, because not every kernel has the `dummy` kind.
const NODE_DEVICE: &str = "node0";

/// The file that stands for a namespace.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    Path::new("/var/run/netns").join(name)
}

/// Whether a namespace exists.
#[must_use]
pub fn exists(name: &str) -> bool {
    path(name).exists()
}

/// Runs a function on a thread of its own inside a namespace.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(name)?;
                work()
            })
            .join()
            .map_err(|_| anyhow!("work inside the namespace {name} ended by accident"))?
    })
}

/// Moves the calling thread into a namespace. For a whole program: call it before any other thread is started.
pub fn enter(name: &str) -> Result<()> {
    let file =
        File::open(path(name)).with_context(|| format!("open the namespace {name}: is the testbed up?"))?;
    setns(file, CloneFlags::CLONE_NEWNET).with_context(|| format!("enter the namespace {name}"))
}

/// Makes the network of one node. Node 1 comes first: the others hang on it.
pub fn create(number: u8) -> Result<()> {
    let name = namespace(number);
    run::output(Command::new("ip").args(["netns", "add", &name]))?;
    let address = node_address(number);
    if number == 1 {
        batch(
            &name,
            &format!(
                "link set lo up\n\
                 link add {NODE_DEVICE} type bridge\n\
                 addr add {address}/32 dev {NODE_DEVICE}\n\
                 link set {NODE_DEVICE} up\n\
                 route add default dev {NODE_DEVICE}\n"
            ),
        )?;
    } else {
        let link = link_to(number);
        run::output(Command::new("ip").args([
            "link",
            "add",
            &link,
            "netns",
            &namespace(1),
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            &name,
        ]))?;
        let first = node_address(1);
        let range = pod_range(number);
        batch(
            &namespace(1),
            &format!(
                "link set {link} up\n\
                 route add {address}/32 dev {link} src {first}\n\
                 route add {range} via {address} dev {link} onlink src {first}\n"
            ),
        )?;
        batch(
            &name,
            &format!(
                "link set lo up\n\
                 addr add {address}/32 dev eth0\n\
                 link set eth0 up\n\
                 route add {first}/32 dev eth0\n\
                 route add default via {first} dev eth0 onlink\n"
            ),
        )?;
        within(&namespace(1), || {
            // Node 1 answers for all other nodes: they are reached through it.
            set(&format!("ipv4/conf/{link}/proxy_arp"), "1")
        })?;
    }
    within(&name, || {
        set("ipv4/ip_forward", "1")?;
        // Services reached from a pod of the same node pass the bridge; where the kernel cannot filter there, say so.
        set("bridge/bridge-nf-call-iptables", "1")
    })
}

/// Removes a namespace with every device in it, if it exists.
pub fn delete(name: &str) -> Result<()> {
    if exists(name) {
        run::output(Command::new("ip").args(["netns", "del", name]))?;
    }
    Ok(())
}

/// The testbed's namespaces that exist now, by number.
#[must_use]
pub fn existing() -> Vec<u8> {
    let mut numbers: Vec<u8> = fs::read_dir("/var/run/netns")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("fsnode")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Lets every packet between a node and the rest vanish, as with a cable pulled: nothing is answered, nothing refused.
///
/// Taking the device down instead would remove the routes and give senders an error at once, which no cut cable does.
pub fn cut(number: u8) -> Result<()> {
    for (place, device) in ends(number) {
        let rule = ["-i", &device, "-j", "DROP"];
        if !iptables(&place, "-C", &rule) {
            run::output(&mut iptables_command(&place, "-I", &rule))?;
        }
    }
    Ok(())
}

/// Undoes [`cut`].
pub fn restore(number: u8) -> Result<()> {
    for (place, device) in ends(number) {
        let rule = ["-i", &device, "-j", "DROP"];
        while iptables(&place, "-C", &rule) {
            run::output(&mut iptables_command(&place, "-D", &rule))?;
        }
    }
    Ok(())
}

/// Whether a node is cut off.
#[must_use]
pub fn is_cut(number: u8) -> bool {
    number != 1
        && ends(number)
            .iter()
            .any(|(place, device)| iptables(place, "-C", &["-i", device, "-j", "DROP"]))
}

/// Packets are dropped where they arrive, at both ends of the cable.
fn ends(number: u8) -> [(String, String); 2] {
    [
        (namespace(1), link_to(number)),
        (namespace(number), "eth0".to_owned()),
    ]
}

fn iptables_command(name: &str, action: &str, rule: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", path(name).display()))
        .args(["iptables", "-w", "10", "-t", "raw", action, "PREROUTING"])
        .args(rule);
    command
}

fn iptables(name: &str, action: &str, rule: &[&str]) -> bool {
    run::output(&mut iptables_command(name, action, rule)).is_ok()
}

fn batch(name: &str, lines: &str) -> Result<()> {
    run::feed(Command::new("ip").args(["-n", name, "-batch", "-"]), lines)
        .with_context(|| format!("set up the network of {name}"))
}

/// Sets a network parameter of the namespace the calling thread is in.
fn set(parameter: &str, value: &str) -> Result<()> {
    let file = Path::new("/proc/sys/net").join(parameter);
    fs::write(&file, value).with_context(|| format!("set {}", file.display()))
}
