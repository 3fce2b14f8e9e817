//! One operation: the commands it sends and what their answers mean.

use redis::{Pipeline, RedisError, Value};

use crate::errors::OpError;

/// What a worker asks for.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Write {
        key: String,
        value: Vec<u8>,
        wait: Option<Wait>,
    },
    Read {
        key: String,
    },
}

/// How many replicas have to confirm a write, and for how long to wait for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) replicas: u32,
    pub(crate) milliseconds: u64,
}

/// What the store answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Written { replicated: bool },
    Value(Option<Vec<u8>>),
}

impl Operation {
    /// The commands, and how many there are. WAIT goes with its write in one piece: it speaks of
    /// the writes that came before it on the same connection.
    pub(crate) fn commands(&self) -> (Pipeline, usize) {
        let mut commands = redis::pipe();
        match self {
            Self::Write { key, value, wait } => {
                commands.cmd("SET").arg(key).arg(value.as_slice());
                if let Some(wait) = wait {
                    commands.cmd("WAIT").arg(wait.replicas).arg(wait.milliseconds);
                }
                (commands, 1 + usize::from(wait.is_some()))
            }
            Self::Read { key } => {
                commands.cmd("GET").arg(key);
                (commands, 1)
            }
        }
    }

    /// The commands for a node that is only importing the slot.
    pub(crate) fn commands_asking(&self) -> (Pipeline, usize) {
        let mut commands = redis::pipe();
        commands.cmd("ASKING");
        let (own, count) = self.commands();
        for command in own.cmd_iter() {
            commands.add_command(command.clone());
        }
        (commands, count + 1)
    }

    /// Reads the answers to `commands`.
    pub(crate) fn answer(&self, answers: Vec<Value>) -> Result<Answer, OpError> {
        let mut answers = answers.into_iter();
        let first = match answers.next() {
            Some(Value::ServerError(error)) => return Err(RedisError::from(error).into()),
            Some(value) => value,
            None => return Err(unexpected("no answer")),
        };
        match (self, first) {
            (Self::Write { wait, .. }, Value::Okay) => {
                let confirmed = match answers.next() {
                    Some(Value::Int(replicas)) => replicas,
                    _ => 0,
                };
                let replicated = wait.is_some_and(|wait| confirmed >= i64::from(wait.replicas));
                Ok(Answer::Written { replicated })
            }
            (Self::Read { .. }, Value::BulkString(value)) => Ok(Answer::Value(Some(value))),
            (Self::Read { .. }, Value::Nil) => Ok(Answer::Value(None)),
            _ => Err(unexpected("an answer of the wrong type")),
        }
    }
}

fn unexpected(what: &'static str) -> OpError {
    RedisError::from((redis::ErrorKind::UnexpectedReturnType, what)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(replicas: u32) -> Operation {
        let wait = (replicas > 0).then_some(Wait {
            replicas,
            milliseconds: 500,
        });
        Operation::Write {
            key: "k".into(),
            value: b"v".to_vec(),
            wait,
        }
    }

    fn error(line: &str) -> Value {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_write_is_replicated_only_if_enough_replicas_say_so() {
        let replicated = |operation: &Operation, answers| match operation.answer(answers).unwrap() {
            Answer::Written { replicated } => replicated,
            Answer::Value(_) => panic!("not a write"),
        };
        assert!(!replicated(&write(0), vec![Value::Okay]));
        assert!(!replicated(&write(2), vec![Value::Okay, Value::Int(1)]));
        assert!(replicated(&write(2), vec![Value::Okay, Value::Int(2)]));
        assert!(!replicated(&write(1), vec![Value::Okay, error("ERR no")]));
    }

    #[test]
    fn a_refused_write_is_no_write_whatever_wait_says() {
        let moved = write(1).answer(vec![error("MOVED 1 a:1"), Value::Int(1)]);
        assert_eq!(moved.unwrap_err().kind(), "moved");
    }

    #[test]
    fn asking_goes_in_front() {
        let (commands, count) = write(1).commands_asking();
        assert_eq!(count, 3);
        assert_eq!(commands.cmd_iter().count(), 3);
    }
}
